/**
 * A commit that waits for a synchronous standby is in the server's log already, and nobody can see it yet: a relay that is
 * told of it has to wait too.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Outbox, postgresOutbox } from 'millrace/outbox'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { next, Recorder } from '../outbox/outboxes.js'
import { startPostgres } from '../servers/postgres.js'
import { until } from '../servers/until.js'
import { notOurs } from './postgres.js'

test.skipIf(notOurs)(
  'what is told is handed on when others can see it (with a server of our own only: its commits wait)',
  async () => {
    const url = await serverWithoutStandby()
    const outbox = new Outbox({ store: postgresOutbox({ url }) })
    await outbox.open()
    onTestFinished(() => outbox.close())
    const recorder = new Recorder()
    const relay = outbox.relay({ publisher: recorder, source: 'replication', handleSignals: false, poll: 50 })
    const following = next(relay, 'following')
    await relay.start()
    await following

    const writer = await connect(url)
    await writer.query('BEGIN')
    await writer.query('SET LOCAL synchronous_commit = on')
    await outbox.publish(writer, 'a', 1, { id: 'waiting' })
    const committed = writer.query('COMMIT')
    committed.catch(() => {}) // when the test fails before
    const admin = await connect(url)
    const pid = await until('the commit waits', 10_000, async () => {
      const { rows } = await admin.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
      return rows[0]?.pid as number | undefined
    })
    // Long enough for what the log says to arrive many times over.
    expect(await Promise.race([recorder.took(1), sleep(1_000, 'nothing')])).toBe('nothing')

    await admin.query('SELECT pg_cancel_backend($1)', [pid])
    await committed
    await recorder.took(1)
    await until('the outbox is empty', 10_000, async () =>
      (await outbox.stats()).waiting.message === 0 ? true : undefined,
    )
    expect(recorder.ids).toEqual(['waiting'])
  },
)

async function serverWithoutStandby(): Promise<string> {
  const server = await startPostgres({
    settings: {
      wal_level: 'logical',
      max_wal_senders: 8,
      max_replication_slots: 8,
      synchronous_standby_names: 'nobody',
      synchronous_commit: 'local',
    },
  })
  onTestFinished(() => server.stop())
  return server.url
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
