/** What is no input says so in a sentence, before anything happens. */
import { isMillraceError } from 'millrace'
import { defineAggregate, defineEvent, defineProjection, EventStore } from 'millrace/events'
import { expect, test } from 'vitest'
import { account, all, bank, Closed, Deposited } from './stores.js'

const definition = { name: 'x', events: [Closed], on: { closed: () => {} } }
const projection = (more: object) => () => defineProjection({ ...definition, ...more } as never)
const aggregate = (more: object) => () =>
  defineAggregate({
    name: 'x',
    events: [Closed],
    initial: 0,
    apply: { closed: (n: number) => n },
    ...more,
  } as never)
const storeWith = (options: object) => () =>
  new EventStore({ log: 'memory:', events: [Closed], ...options } as never)

const refusals: [what: string, attempt: () => unknown, message: string][] = [
  ['a codec that is none', storeWith({ codec: {} }), 'codec is an object; expected an object with encode'],
  ['a clock that is none', storeWith({ clock: {} }), 'clock is an object; expected an object with now'],
  ['projections that are no list', storeWith({ projections: {} }), 'projections is an object'],
  ['retention that is none', storeWith({ retention: 'all' }), 'retention is "all"'],
  [
    'an unknown event of the store',
    () => storeWith({})().on('errors' as never, () => {}),
    'name is "errors"; expected one of error',
  ],
  ['a listener that is none', () => storeWith({})().on('error', 1 as never), 'listener is 1'],
  [
    'signals that are neither',
    () => storeWith({})().worker({ handleSignals: 'no' as never }),
    'handleSignals is "no"',
  ],
  ['skip without options', projection({ skip: null }), 'skip is null'],
  ['inline that is neither', projection({ inline: 'yes' }), 'inline is "yes"; expected true or false'],
  ['a projection of nothing', projection({ events: [], on: {} }), 'events is []; expected at least one'],
  ['a table that nobody drops', projection({ create: () => {} }), 'drop is undefined; expected a function'],
  ['a state that cannot be copied', aggregate({ initial: { f: () => {} } }), 'initial is an object'],
  ['snapshots without options', aggregate({ snapshot: null }), 'snapshot is null'],
]
for (const [what, attempt, message] of refusals)
  test(`refuses ${what}`, () => {
    expect(attempt).toThrow(message)
    expect(attempt).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

test('what is asked of a store is checked', async () => {
  const { store } = await bank()
  const Other = defineEvent({ type: 'other' })
  const other = defineAggregate({ name: 'o', events: [Other], initial: 0, apply: { other: (n) => n } })
  const wrong: [() => Promise<unknown>, string][] = [
    [() => store.append('a', [Deposited as never]), 'events[0] is a function'],
    [() => store.append('a', [Closed()], null as never), 'append is null'],
    [() => all(store.follow({ signal: {} as never })), 'signal is an object'],
    [() => store.load({} as never, 'a'), 'aggregate is an object'],
    [() => store.execute(undefined as never, 'a', () => []), 'aggregate is undefined'],
    [() => store.load(other as never, 'a'), 'events of aggregate \'o\' is "other"'],
    [() => store.close({ graze: 1 } as never), "did you mean 'grace'?"],
    [() => store.forget('nobody'), 'projection is "nobody"; expected one that the log knows'],
    [() => store.forget(1 as never), 'projection is 1'],
  ]
  for (const [ask, message] of wrong) {
    const error = await ask().catch((thrown: unknown) => thrown)
    expect((error as Error).message).toContain(message)
    expect(isMillraceError(error, 'INVALID_OPTION')).toBe(true)
  }
  expect(await store.load(account, 'a')).toMatchObject({ version: 0 })
})
