/** Jobs that events lead to, and events that jobs append. */
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Millrace, type Store } from 'millrace'
import { defineReaction, type EventLog } from 'millrace/events'
import { postgresStore } from 'millrace/postgres'
import { SqliteStore } from 'millrace/sqlite'
import { TestMill } from 'millrace/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { postgresLog } from '../../src/events/logs/postgres/index.js'
import { sqliteLog } from '../../src/events/logs/sqlite/index.js'
import { freshSchema, serverUrl } from '../postgres/postgres.js'
import { caughtUp, working } from './followers.js'
import { engine, freshFile } from './logs.js'
import { all, type Bank, bank, codeOf, Deposited, deposits, Opened, storeOn } from './stores.js'
import { freshName } from './tables.js'

const welcome = defineJob({ name: 'welcome', run: (owner: string) => `welcome ${owner}` })
const count = defineJob({ name: 'count', run: (n: number) => n })

async function reacting(options: { from?: 'beginning' | 'end' } = {}, on: () => unknown = () => {}) {
  const made: Bank = await bank()
  const mill = new TestMill({ jobs: [welcome, count] })
  onTestFinished(() => mill.close())
  const define = () =>
    defineReaction({
      name: freshName('greet'),
      events: [Opened, Deposited],
      to: mill,
      backoff: { type: 'fixed', initialDelay: 1 },
      ...options,
      on: {
        opened: ({ data }, { enqueue }) => enqueue(welcome, data.owner),
        deposited: async ({ data }, { enqueue }) => {
          // Nobody waits for the first of them here.
          void enqueue(count, data.amount, { priority: 'high' })
          await enqueue(count, data.amount + 1)
          await on()
        },
      },
    })
  const reaction = define()
  const store = await storeOn(made.log, { projections: [reaction] })
  store.on('error', () => {})
  const inputs = async () =>
    [...(await mill.enqueued(welcome)), ...(await mill.enqueued(count))].map(({ input }) => input)
  return { ...made, store, mill, reaction, inputs }
}

describe('a reaction', () => {
  test('adds the jobs of each event, once, however often that comes', async () => {
    let failures = 3
    const { store, reaction, inputs } = await reacting({}, () => {
      if (failures-- > 0) throw new Error('after the jobs were added')
    })
    await store.append('account-1', [Opened({ owner: 'ann' }), Deposited({ amount: 5 })])
    await working(store)
    await caughtUp(store, reaction)
    expect(failures).toBe(-1)
    expect(await inputs()).toEqual(['ann', 5, 6])
  })

  test('looks at what comes after it became known, unless it is told to begin at the beginning', async () => {
    const { store, another } = await bank()
    await deposits(store, 'account-1', 1)
    const seen: string[] = []
    const to = { enqueue: async (_job: unknown, input: unknown) => ({ id: `${seen.push(`${input}`)}` }) }
    const reaction = (from?: 'beginning') =>
      defineReaction({
        name: freshName('react'),
        events: [Deposited],
        to: to as never,
        ...(from && { from }),
        on: { deposited: ({ version }, { enqueue }) => enqueue(count, version) },
      })
    const late = await another({ projections: [reaction()] })
    await deposits(store, 'account-1', 1)
    await late.catchUp()
    expect(seen).toEqual(['2'])
    await (await another({ projections: [reaction('beginning')] })).catchUp()
    expect(seen).toEqual(['2', '1', '2'])
  })

  test('fails, and the process does not, when a job that it does not wait for cannot be added', async () => {
    const { store, log } = await bank()
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    const to = { enqueue: () => Promise.reject(new Error('no jobs today')) }
    const reaction = defineReaction({
      name: freshName('react'),
      events: [Deposited],
      to,
      from: 'beginning',
      on: {
        deposited: async ({ version }, { enqueue }) => {
          void enqueue(count, version)
          await sleep(20)
        },
      },
    })
    await deposits(store, 'account-1', 1)
    const late = await storeOn(log, { projections: [reaction] })
    expect(await codeOf(late.catchUp())).toBe('no jobs today')
    expect(unhandled).toEqual([])
  })

  test('is never rebuilt, and refuses what is none', async () => {
    const { store, reaction } = await reacting()
    await expect(store.rebuild(reaction)).rejects.toThrow('would do again all that it ever did')
    const wrong = { name: 'wrong', events: [Opened], to: {}, on: { opened: () => {} } }
    expect(() => defineReaction(wrong as never)).toThrow('to is an object; expected a Millrace')
  })
})

describe.skipIf(engine === 'memory')('a job', () => {
  test('appends events that are there if and only if it completes', async () => {
    const { log, jobs } = await sameDatabase()
    await log.open()
    onTestFinished(() => log.close())
    const store = await storeOn(log)
    let attempts = 0
    const deposit = defineJob({
      name: 'deposit',
      transactional: true,
      maxAttempts: 2,
      backoff: { type: 'fixed', initialDelay: 1 },
      run: async (amount: number, { tx }) => {
        const { version } = await store.append('account-1', [Deposited({ amount })], { tx: await tx() })
        if (++attempts === 1) throw new Error('after the append')
        return version
      },
    })
    const mill = new Millrace({ store: jobs, jobs: [deposit] })
    onTestFinished(() => mill.close({ grace: 0 }))
    await mill.worker({ handleSignals: false, poll: 20 }).start()
    const job = await mill.enqueue(deposit, 5)
    expect(await job.result({ timeout: '10s' })).toBe(1)
    expect([attempts, (await all(store.read('account-1'))).length]).toEqual([2, 1])
  })
})

async function sameDatabase(): Promise<{ log: EventLog; jobs: Store }> {
  if (engine === 'sqlite') {
    const file = freshFile()
    return { log: sqliteLog({ file }), jobs: new SqliteStore({ file }) }
  }
  const url = serverUrl()
  return {
    log: postgresLog({ url, schema: freshSchema() }),
    jobs: postgresStore({ url, schema: freshSchema() }),
  }
}
