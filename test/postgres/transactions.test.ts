/** Jobs that are enqueued in the caller's own transaction, whatever library it is of. */
import { randomUUID } from 'node:crypto'
import { defineJob, Millrace } from 'millrace'
import { postgresStore } from 'millrace/postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Library, libraries } from './libraries.js'
import { asAdmin, serverUrl } from './postgres.js'

const schema = `test_${process.pid}_transactions`
const double = defineJob({ name: 'double', run: (n: number) => n * 2 })
const grouped = defineJob({
  name: 'grouped',
  group: ({ tenant }: { tenant: string; text: string }) => tenant,
  run: ({ text }) => text,
})
let mill: Millrace

beforeAll(async () => {
  mill = new Millrace({ store: postgresStore({ url: serverUrl(), schema }), jobs: [double, grouped] })
  await mill.open()
  await mill.worker({ handleSignals: false }).start()
})

afterAll(async () => {
  await mill.close()
  await asAdmin((client) => client.query(`DROP SCHEMA "${schema}" CASCADE`))
})

describe.each(Object.entries(libraries))('%s', (_, open) => {
  let library: Library
  let id: string

  beforeAll(async () => {
    library = await open()
    return () => library.close()
  })

  test('commits the job, which then runs', async () => {
    id = randomUUID()
    const job = await library.transaction(async (tx) => {
      const handle = await mill.enqueue(double, 21, {
        tx,
        id,
        tags: ['a:b'],
        metadata: { quote: "it's $1 \\ ?" },
      })
      expect(await mill.job(id).get()).toBeUndefined()
      return handle
    })
    expect([job.status, await job.result({ timeout: '10s' })]).toEqual(['inserted', 42])
    expect(await job.get()).toMatchObject({ tags: ['a:b'], metadata: { quote: "it's $1 \\ ?" } })
  })

  test('leaves no job after a rollback', async () => {
    const undone = library.transaction(async (tx) => {
      id = (await mill.enqueue(double, 1, { tx })).id
      throw new Error('no')
    })
    await expect(undone).rejects.toThrow('no')
    expect(await mill.job(id).get()).toBeUndefined()
  })

  test('goes on after a duplicate', async () => {
    const first = await mill.enqueue(double, 1, { delay: '1h' })
    const [again, other] = await library.transaction(async (tx) => [
      await mill.enqueue(double, 2, { tx, id: first.id }),
      await mill.enqueue(double, 3, { tx }),
    ])
    expect([again?.status, await again?.state()]).toEqual(['duplicate', 'scheduled'])
    expect(await other?.result({ timeout: '10s' })).toBe(6)
  })

  test('commits jobs with groups and dedupe keys, once', async () => {
    const key = randomUUID()
    const text = `it's "$1" \\ ?`
    const [first, second] = await library.transaction(async (tx) => [
      await mill.enqueue(grouped, { tenant: 'a', text }, { tx, dedupe: { key } }),
      await mill.enqueue(grouped, { tenant: 'a', text: 'twice' }, { tx, dedupe: { key } }),
    ])
    expect([first?.status, second?.status, second?.id]).toEqual(['inserted', 'duplicate', first?.id])
    expect(await first?.result({ timeout: '10s' })).toBe(text)
  })

  test('leaves none of these after a rollback', async () => {
    const undone = library.transaction(async (tx) => {
      id = (await mill.enqueue(grouped, { tenant: 'a', text: '' }, { tx })).id
      throw new Error('no')
    })
    await expect(undone).rejects.toThrow('no')
    expect(await mill.job(id).get()).toBeUndefined()
  })

  test('loses what a savepoint takes back, and no more', async ({ skip }) => {
    const { savepoint } = library
    if (savepoint === undefined) return skip('this library leaves savepoints to SQL')
    const undone: string[] = []
    const job = await library.transaction(async (tx) => {
      const inner = savepoint(tx, async (nested) => {
        undone.push((await mill.enqueue(double, 1, { tx: nested })).id)
        undone.push((await mill.enqueue(grouped, { tenant: 'a', text: '' }, { tx: nested })).id)
        throw new Error('no')
      })
      await expect(inner).rejects.toThrow('no')
      return mill.enqueue(double, 5, { tx })
    })
    expect(await job.result({ timeout: '10s' })).toBe(10)
    expect(await Promise.all(undone.map((id) => mill.job(id).get()))).toEqual([undefined, undefined])
  })

  test('is refused outside of a transaction, with what is accepted', async () => {
    expect(library.noTransaction).not.toEqual([])
    for (const tx of library.noTransaction) {
      const refused = mill.enqueue(double, 1, { tx })
      await expect(refused).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'tx' })
      await expect(refused).rejects.toThrow(/^tx is .+; expected an open transaction of one of: .*PoolClient/)
    }
  })
})

test.each([
  ['null', null],
  ['a text', 'BEGIN'],
  ['an object', {}],
  ['a function', () => {}],
])('%s is no transaction', async (_, tx) => {
  await expect(mill.enqueue(double, 1, { tx })).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'tx' })
})

test('a snapshot that is older than the first job of its kind takes the job all the same', async () => {
  const late = defineJob({ name: 'late', queue: 'late', run: (_: null) => 'done' })
  const job = await asAdmin(async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const handle = await mill.enqueue(late, null, { tx: client })
    await client.query('COMMIT')
    return handle
  })
  expect(await job.state()).toBe('pending')
})

test('what a transaction would have brought says nothing to the next one of the same client', async () => {
  const dedupe = { key: randomUUID() }
  const input = { tenant: 'a', text: 'second' }
  const job = await asAdmin(async (client) => {
    await client.query('BEGIN')
    await mill.enqueue(grouped, { ...input, text: 'first' }, { tx: client, dedupe })
    await client.query('ROLLBACK; BEGIN')
    const handle = await mill.enqueue(grouped, input, { tx: client, dedupe })
    await client.query('COMMIT')
    return handle
  })
  expect([job.status, await job.result({ timeout: '10s' })]).toEqual(['inserted', 'second'])
})

test('the transaction of a handler brings jobs with its commit', async () => {
  const added: string[] = []
  const adds = defineJob({
    name: 'adds',
    queue: 'adds',
    transactional: true,
    maxAttempts: 1,
    run: async (fails: boolean, context) => {
      const tx = await context.tx()
      added.push((await mill.enqueue(double, 4, { tx })).id)
      added.push((await mill.enqueue(grouped, { tenant: 'a', text: 'added' }, { tx })).id)
      if (fails) throw new Error('no')
    },
  })
  const other = new Millrace({ store: postgresStore({ url: serverUrl(), schema }), jobs: [adds] })
  onTestFinished(() => other.close())
  await other.worker({ handleSignals: false, queues: ['adds'] }).start()
  await (await other.enqueue(adds, false)).result({ timeout: '10s' })
  await expect((await other.enqueue(adds, true)).result({ timeout: '10s' })).rejects.toThrow('no')
  const [plain = '', withGroup = '', ...undone] = added
  expect(await mill.job(plain).result({ timeout: '10s' })).toBe(8)
  expect(await mill.job(withGroup).result({ timeout: '10s' })).toBe('added')
  for (const id of undone) expect(await mill.job(id).get()).toBeUndefined()
})
