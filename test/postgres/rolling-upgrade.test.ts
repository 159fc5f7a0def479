/** Two versions of Millrace on one schema: the older one goes on with its own functions when the newer one has come. */
import { defineJob, Millrace, type Store } from 'millrace'
import { expect, onTestFinished, test, vi } from 'vitest'
import { functionSet } from '../../src/stores/postgres/functions.js'
import { newJob } from '../new-job.js'
import { outcomeOf } from '../outcome.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

const generated = '../../src/stores/postgres/sql.generated.js'
type Texts = typeof import('../../src/stores/postgres/sql.generated.js')

/** Neither a result nor a parameter could be changed in place: PostgreSQL refuses the one, and has two of the other. */
function older(texts: Texts): Partial<Record<keyof Texts, string>> {
  return {
    exchange: swap(
      swap(texts.exchange, 'OUT extras text)', 'OUT extras text, OUT edition int)'),
      'settle_{set}(at, worker,',
      'settle_{set}(1, at, worker,',
    ),
    settle: swap(texts.settle, '.settle_{set}(', '.settle_{set}(edition int,'),
  }
}

test('workers of both share the jobs, before and after the other has come', async () => {
  const schema = freshSchema()
  const old = await openStore(schema, older)
  const jobs = await runSome(old, 'first')
  const current = await openStore(schema)
  expect(await functionsOf(schema, 'exchange')).toHaveLength(2)
  jobs.push(...(await Promise.all([runSome(old, 'old'), runSome(current, 'current')])).flat())
  expect(jobs).toEqual(jobs.map(() => 'completed'))

  // What one has claimed is not lost on the other.
  await old.insert([newJob({ id: 'between', queue: 'between' })])
  const { claimed } = await claimIn(old, 'worker', 'between')
  const settlement = { outcome: outcomeOf({ to: 'completed', retain: 1_000 }), inserts: undefined }
  const settlements = claimed.map(({ id, token }) => ({ id, token, ...settlement }))
  expect(await current.exchange({ worker: 'worker', settlements, claim: undefined })).toMatchObject({
    settled: ['applied'],
  })
})

test('one that starts again leaves everything as it is, and `enqueue` is that of the version that came last', async () => {
  const schema = freshSchema()
  const old = await openStore(schema, older)
  await openStore(schema)
  const before = await functionsOf(schema)
  await old.close()
  await openStore(schema, older)
  expect(await functionsOf(schema)).toEqual(before)
  await asAdmin((client) => client.query(`SELECT ${schema}.enqueue('echo')`))
  const [enqueue] = await functionsOf(schema, 'enqueue')
  expect(enqueue?.text).toContain(`insert_jobs_${functionSet}(`)
})

async function openStore(schema: string, change?: typeof older): Promise<Store> {
  vi.resetModules()
  if (change === undefined) vi.doUnmock(generated)
  else
    vi.doMock(generated, async (original) => {
      const texts = (await original()) as Texts
      return { ...texts, ...change(texts) }
    })
  const { PostgresStore } = await import('../../src/stores/postgres/index.js')
  const store = new PostgresStore({ url: serverUrl(), schema })
  await store.open()
  onTestFinished(() => store.close())
  return store
}

/** Plain jobs and others, some of which fail once; in what state they end. */
async function runSome(store: Store, queue: string): Promise<string[]> {
  const run = (n: number, { attempt }: { attempt: number }) => {
    if (n % 5 === 0 && attempt === 1) throw new Error('once')
  }
  const common = { queue, backoff: { type: 'fixed', initialDelay: 1 }, run } as const
  const plain = defineJob({ ...common, name: 'plain' })
  const grouped = defineJob({ ...common, name: 'grouped', group: (n: number) => `${n % 3}` })
  const mill = new Millrace({ store: keepOpen(store), jobs: [plain, grouped] })
  const worker = mill.worker({ queues: [queue], handleSignals: false, poll: '20ms' })
  await worker.start()
  const inputs = Array.from({ length: 20 }, (_, n) => n)
  const handles = [...(await mill.enqueueMany(plain, inputs)), ...(await mill.enqueueMany(grouped, inputs))]
  await Promise.all(handles.map((handle) => handle.result({ timeout: '20s' })))
  const states = await Promise.all(handles.map(async (handle) => (await handle.state()) ?? 'gone'))
  await worker.stop()
  await mill.close()
  return states
}

/** A mill closes its store, which the test still needs. */
function keepOpen(store: Store): Store {
  return new Proxy(store, {
    get(target, property) {
      if (property === 'close') return async () => {}
      const value: unknown = Reflect.get(target, property)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function claimIn(store: Store, worker: string, queue: string) {
  const claim = {
    token: queue,
    lease: 10_000,
    room: { shared: 10, own: [0, 0, 0, 0] },
    picks: [{ queue, lane: 2, take: 10 }],
    turn: 0,
  }
  return store.exchange({ worker, settlements: [], claim })
}

function functionsOf(schema: string, name = '') {
  const text = `SELECT p.oid, p.proname AS name, p.prosrc AS text FROM pg_proc p
    WHERE p.pronamespace = $1::regnamespace AND starts_with(p.proname, $2) ORDER BY p.oid`
  return asAdmin(
    async (client) =>
      (await client.query<{ oid: number; name: string; text: string }>(text, [schema, name])).rows,
  )
}

function swap(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`there is no '${from}' any more`)
  return text.replace(from, to)
}
