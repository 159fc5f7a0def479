/** Commits whose answers are lost: what was asked for is done once, and counts. */
import { defineAggregate, type EventLog } from 'millrace/events'
import { expect, test } from 'vitest'
import { all, bank, Deposited, withVerbs } from './stores.js'

/** The first answer never arrives, so it asks again. */
const askingTwice = (log: EventLog) =>
  withVerbs(log, {
    append: (async (appends: never, tx: unknown) => {
      await log.append(appends, tx)
      return log.append(appends, tx)
    }) as EventLog['append'],
  })

test('a command whose append was asked for twice comes to the state with its events, and keeps that', async () => {
  const total = defineAggregate({
    name: 'total',
    events: [Deposited],
    initial: 0,
    apply: { deposited: (sum, { data }) => sum + data.amount },
    snapshot: { every: 1 },
  })
  const { store, log } = await bank({ wrap: askingTwice })
  const deposit = (amount: number) =>
    store.execute(total as never, 'account-1', () => [Deposited({ amount })] as never)
  expect(await deposit(5)).toEqual({ state: 5, version: 1, appended: 1 })
  await expect.poll(() => log.snapshot('account-1', 'total')).toMatchObject({ version: 1, state: '5' })
  expect(await deposit(2)).toEqual({ state: 7, version: 2, appended: 1 })
  expect(await store.load(total as never, 'account-1')).toEqual({ state: 7, version: 2 })
  expect(await all(store.read('account-1'))).toHaveLength(2)
})
