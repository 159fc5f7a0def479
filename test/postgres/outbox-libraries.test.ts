/** Rows of an outbox and notes of an inbox in the caller's own transaction, whatever library it is of. */
import { Inbox, Outbox, postgresOutbox } from 'millrace/outbox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Recorder } from '../outbox/outboxes.js'
import { type Library, libraries } from './libraries.js'
import { asAdmin, serverUrl } from './postgres.js'

const schema = `test_${process.pid}_outbox_libraries`
const outbox = new Outbox({ store: postgresOutbox({ url: serverUrl(), schema }) })
const inbox = new Inbox({ store: postgresOutbox({ url: serverUrl(), schema }), consumer: 'tests' })
const recorder = new Recorder()

beforeAll(async () => {
  await inbox.open()
  await outbox.relay({ publisher: recorder, handleSignals: false }).start()
})

afterAll(async () => {
  await outbox.close()
  await inbox.close()
  await asAdmin((client) => client.query(`DROP SCHEMA "${schema}" CASCADE`))
})

describe.each(Object.entries(libraries))('%s', (name, open) => {
  let library: Library

  beforeAll(async () => {
    library = await open()
    return () => library.close()
  })

  test('what is written leaves after the commit, and nothing after a rollback', async () => {
    const id = `${name.replaceAll(/\W+/g, '-')}-1`
    const payload = { quote: `it's $1 \\ ? ${name}` }
    const undone = library.transaction(async (tx) => {
      await outbox.publish(tx, 'undone', payload)
      throw new Error('no')
    })
    await expect(undone).rejects.toThrow('no')
    const before = recorder.messages.length
    await library.transaction((tx) =>
      outbox.publish(tx, 'done', payload, { id, key: 'k', headers: { a: '?' } }),
    )
    await recorder.took(before + 1)
    expect(recorder.messages.at(-1)).toMatchObject({ id, topic: 'done', key: 'k', headers: { a: '?' } })
    expect(JSON.parse(recorder.messages.at(-1)?.body ?? '')).toEqual(payload)
  })

  test('a message is noted once', async () => {
    const once = () => library.transaction((tx) => inbox.once(tx, `note of ${name}`, () => 1))
    expect(await once()).toEqual({ first: true, result: 1 })
    expect(await once()).toEqual({ first: false })
  })
})
