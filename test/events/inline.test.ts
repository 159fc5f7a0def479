import { defineProjection } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { engine } from './logs.js'
import { all, bank, Closed, codeOf, Deposited, Opened, storeOn } from './stores.js'
import { freshName, type Sums, sumsIn } from './tables.js'

/** A store whose inline projection keeps sums in a table; `fail` breaks it. */
async function summing(fail: (amount: number) => unknown = () => {}) {
  const { store: plain, log, begin } = await bank()
  const name = freshName('sums')
  const table = `${name.replaceAll('-', '_')}_1`
  const sums: Sums = sumsIn(log, name)
  const transaction = await log.begin()
  await sums.create({ tx: <Tx>() => transaction.tx as Tx, table, generation: 1 })
  await transaction.commit()
  const seen: string[] = []
  const projection = defineProjection({
    name,
    inline: true,
    events: [Deposited],
    on: {
      deposited: ({ stream, version, type, data, at }, { tx }) => {
        seen.push(`${stream} ${version} ${type} ${at instanceof Date}`)
        const failing = fail(data.amount)
        const added = sums.add(tx(), table, stream, data.amount)
        return engine === 'postgres' || failing instanceof Promise ? Promise.all([failing, added]) : undefined
      },
    },
  })
  const store = await storeOn(log, { projections: [projection] })
  return { store, plain, begin, seen, read: () => sums.read(table) }
}

describe('an inline projection', () => {
  test('is written with the events', async () => {
    const { store, read, seen } = await summing()
    await store.append('account-1', [
      Opened({ owner: 'ann' }),
      Deposited({ amount: 2 }),
      Deposited({ amount: 3 }),
    ])
    expect(await read()).toEqual(['account-1: 5/2'])
    expect(seen).toEqual(['account-1 2 deposited true', 'account-1 3 deposited true'])
    await Promise.all([1, 2, 3].map((amount) => store.append('account-2', [Deposited({ amount })])))
    expect(await read()).toEqual(['account-1: 5/2', 'account-2: 6/3'])
  })

  test('that throws refuses the append, and nothing of it stays', async () => {
    const { store, read } = await summing((amount) => {
      if (amount === 13) throw new Error('thirteen')
    })
    const unlucky = store.append('account-1', [Deposited({ amount: 1 }), Deposited({ amount: 13 })])
    expect(await codeOf(unlucky)).toBe('thirteen')
    expect([await read(), await all(store.read('account-1'))]).toEqual([[], []])
    expect(await store.append('account-1', [Deposited({ amount: 1 })])).toMatchObject({ version: 1 })
  })

  test('does not see an append that conflicts, or that is asked for again', async () => {
    const { store, read } = await summing()
    const id = '0199a7c1-0000-7000-8000-000000000001'
    for (let i = 0; i < 2; i++) await store.append('account-1', [Deposited({ amount: 1 })], { id })
    expect(await codeOf(store.append('account-1', [Deposited({ amount: 1 })], { expected: 'none' }))).toBe(
      'WRONG_VERSION',
    )
    expect(await read()).toEqual(['account-1: 1/1'])
  })

  test('joins a transaction of the caller', async () => {
    const { store, read, begin } = await summing()
    const undone = await begin()
    await store.append('account-1', [Deposited({ amount: 1 })], { tx: undone.tx })
    await undone.rollback()
    expect(await read()).toEqual([])
    const done = await begin()
    await store.append('account-1', [Deposited({ amount: 1 }), Closed()], { tx: done.tx })
    await done.commit()
    expect(await read()).toEqual(['account-1: 1/1'])
  })

  test.skipIf(engine === 'postgres')(
    'that is asynchronous is refused in a synchronous transaction of the caller, and works otherwise',
    async () => {
      const { store, begin, read } = await summing(async () => {})
      await store.append('account-1', [Deposited({ amount: 1 })])
      expect(await read()).toEqual(['account-1: 1/1'])
      const caller = await begin()
      expect(() => store.append('account-1', [Deposited({ amount: 1 })], { tx: caller.tx })).toThrow(
        'a synchronous handler',
      )
      await caller.rollback()
    },
  )

  test('is no projection to rebuild, to run or to wait for', async () => {
    const { store } = await summing()
    const worker = () => store.worker({ projections: ['nothing'] })
    expect(worker).toThrow('projection is "nothing"; expected one of the store\'s')
    const [name] = (await store.stats()).projections
    expect(name).toBeUndefined()
  })
})
