import { defineJob, type JobState } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

interface Order {
  order: { id: number; note?: string }
}

const ship = defineJob<Order>({ name: 'ship', search: ['order.id', 'order.note'], run: () => {} })
const bill = defineJob<Order>({ name: 'bill', search: ['order.id'], maxAttempts: 1, run: fail })
const plain = defineJob<Order>({ name: 'plain', run: () => {} })
const parent = defineJob<Order>({
  name: 'parent',
  run: (input, { enqueue }) => enqueue(ship, input, { delay: '1h' }),
})

function fail(): never {
  throw new Error('no')
}

function shop() {
  const mill = testMill({ jobs: [ship, bill, plain, parent] })
  const find = async (name: string, id: number, state: JobState = 'pending', indexed?: boolean) => {
    const field = { path: 'order.id', value: id, indexed }
    return (await mill.jobs({ state, name, field })).jobs.map(({ input }) => (input as Order).order.id)
  }
  return { mill, find }
}

const order = (id: number): Order => ({ order: { id } })

describe('fields of `search`', () => {
  test('are taken from the input wherever a job is added', async () => {
    const { mill, find } = shop()
    await mill.enqueue(ship, order(1))
    await mill.enqueue(ship, order(2), { tags: ['x'] })
    await mill.enqueueMany(ship, [order(3), order(4)])
    await mill.flow({ job: plain, input: order(0), children: [{ job: ship, input: order(5) }] })
    await mill.schedule('daily', { every: '1d', job: ship, input: order(6) })
    await mill.schedule('daily').trigger()
    for (const id of [1, 2, 3, 4, 5, 6]) expect(await find('ship', id, 'pending', true)).toEqual([id])
    await mill.enqueue(parent, order(7))
    await mill.drain()
    expect(await find('ship', 7, 'scheduled', true)).toEqual([7])
    expect(await find('ship', 1, 'completed')).toEqual([1])
  })

  test('are looked for there when the definition has them, and in the inputs otherwise', async () => {
    const { mill, find } = shop()
    await mill.enqueue(ship, order(1))
    await mill.enqueue(plain, order(1))
    expect(await find('ship', 1)).toEqual([1])
    expect(await find('plain', 1)).toEqual([1])
    expect(await find('plain', 1, 'pending', true)).toEqual([])
    const all = await mill.jobs({ state: 'pending', field: { path: 'order.id', value: 1 } })
    expect(all.jobs).toHaveLength(2)
  })

  test('follow the input of a replay', async () => {
    const { mill, find } = shop()
    const { id } = await mill.enqueue(bill, order(1))
    await mill.drain()
    const field = { path: 'order.id', value: 1 }
    expect((await mill.dead.list({ name: 'bill', field })).jobs.map((job) => job.id)).toEqual([id])
    await mill.dead.retry(id, { input: order(2), delay: '1h' })
    expect([await find('bill', 1, 'scheduled'), await find('bill', 2, 'scheduled')]).toEqual([[], [2]])
  })

  test('lead to the dead that are replayed or purged', async () => {
    const { mill } = shop()
    await mill.enqueueMany(bill, [order(1), order(2), order(1)])
    await mill.drain()
    expect(await mill.dead.purge({ name: 'bill', field: { path: 'order.id', value: 1 } })).toBe(2)
    expect((await mill.dead.list()).jobs).toHaveLength(1)
  })

  test('leave out what is too long, and keep the rest', async () => {
    const { mill, find } = shop()
    await mill.enqueue(ship, { order: { id: 1, note: 'x'.repeat(257) } })
    expect(await find('ship', 1, 'pending', true)).toEqual([1])
  })
})

describe('what cannot be searched is refused', () => {
  test('by a definition', () => {
    const define = (search: unknown) => () =>
      defineJob({ name: 'x', search: search as readonly string[], run: () => {} })
    expect(define('order.id')).toThrow(/^search is "order.id"; expected an array of at most 8/)
    expect(define(Array.from({ length: 9 }, (_, i) => `f${i}`))).toThrow(/^search is .*at most 8/)
    for (const path of ['', 'a..b', '.a', 'a.0', '0', 'a b', 'a.-1', 'x'.repeat(129), 1])
      expect(define(['ok', path])).toThrow(/^search\[1\] is .*expected names of properties/)
    expect(define(['a', '$a.b-c_d', 'a'])().search).toEqual(['a', '$a.b-c_d'])
  })

  test('by a list', async () => {
    const { mill } = shop()
    const list = (field: unknown) => async () => mill.jobs({ state: 'pending', field: field as never })
    await expect(list({ path: 'a.0', value: 1 })).rejects.toMatchObject({ field: 'field.path', limit: 128 })
    for (const value of [undefined, Number.NaN, {}, [], 'x'.repeat(257), 1n])
      await expect(list({ path: 'a', value })).rejects.toMatchObject({ field: 'field.value', limit: 256 })
    await expect(list({ path: 'a', value: 1, indexed: 1 })).rejects.toMatchObject({ field: 'field.indexed' })
    await expect(list({ path: 'a', valeu: 1 })).rejects.toThrow(/did you mean 'value'/)
    await expect(list('a')).rejects.toThrow(/^field is "a"/)
  })
})
