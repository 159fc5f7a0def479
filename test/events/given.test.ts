import { MillraceError } from 'millrace'
import { defineAggregate, defineEvent, defineProjection, WrongVersionError } from 'millrace/events'
import { given, givenEvents, later, VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { summed } from './followers.js'
import { account, Closed, codeOf, Deposited, Opened, Withdrawn } from './stores.js'

const withdraw = (amount: number) => (state: { balance: number }) => {
  if (amount > state.balance) throw new MillraceError('INVALID_INPUT', `only ${state.balance} are left`)
  return [Withdrawn({ amount })]
}

const rich = [Opened({ owner: 'ann' }), Deposited({ amount: 10 })]

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'nothing failed',
    (error: Error) => error.message,
  )

describe('given an aggregate', () => {
  test('a decision comes to events, and to a state', async () => {
    await given(account, rich)
      .when(withdraw(4))
      .then([Withdrawn({ amount: 4 })])
    await given(account, rich).when(withdraw(4)).thenState({ owner: 'ann', balance: 6, isOpen: true })
    await given(account, rich).thenState(({ balance }) => expect(balance).toBe(10))
    await given(account)
      .when(() => [])
      .then([])
    await given(account)
      .when(async () => Closed())
      .then([Closed()])
    expect(await given(account, rich).when(withdraw(4)).events()).toEqual([
      { type: 'withdrawn', data: { amount: 4 } },
    ])
  })

  test('a decision is refused', async () => {
    const refused = given(account, rich).when(withdraw(40))
    for (const match of [
      undefined,
      'INVALID_INPUT',
      'only 10',
      /only \d+/,
      MillraceError,
      (error: unknown) => error instanceof Error,
      { code: 'INVALID_INPUT' },
    ])
      await refused.thenThrows(match)
    for (const match of ['CLOSED', /none/, WrongVersionError, () => false, { code: 'CLOSED' }])
      expect(await failureOf(refused.thenThrows(match))).toContain('it was refused with another error')
  })

  test('what is not as expected shows the difference', async () => {
    const drawn = given(account, rich).when(withdraw(4))
    const events = await failureOf(drawn.then([Withdrawn({ amount: 5 })]))
    expect(events).toContain('the decision came to other events')
    expect(events).toMatch(/\+ +amount: 4/)
    expect(events).toMatch(/- +amount: 5/)
    expect(events.match(/amount: 5/g)).toHaveLength(1)
    expect(await failureOf(drawn.thenState({ owner: 'ann', balance: 7, isOpen: true }))).toMatch(
      /\+ +balance: 6/,
    )
    expect(await failureOf(drawn.thenThrows('INVALID_INPUT'))).toContain('it came to events')
    const refused = given(account, rich).when(withdraw(40))
    expect(await failureOf(refused.then([]))).toBe('the decision was refused: only 10 are left')
    expect(await failureOf(refused.events())).toBe('the decision was refused: only 10 are left')
    // @ts-expect-error it says nothing of what is expected
    const forgotten = async () => await drawn
    expect(await failureOf(forgotten())).toContain('say what is expected')
  })

  test('what is expected is compared as it would be stored', async () => {
    const Noted = defineEvent({
      type: 'noted',
      data: z.object({ text: z.string(), by: z.string().optional() }),
    })
    const note = defineAggregate({
      name: 'note',
      events: [Noted],
      initial: 0,
      apply: { noted: (n) => n + 1 },
    })
    await given(note)
      .when(() => Noted({ text: 'x', by: undefined }))
      .then([Noted({ text: 'x', by: undefined })])
    await given(note)
      .when(() => Noted({ text: 'x' }))
      .then([Noted({ text: 'x', by: undefined })])
  })

  test('time passes between events, and before the decision', async () => {
    const clock = new VirtualClock('2030-01-01T00:00:00Z')
    const times: string[] = []
    await given(account, [Opened({ owner: 'ann' }), later('2d'), Closed(), later('1h')], { clock })
      .when((_, { now, stream, version }) => {
        times.push(now.toISOString(), stream, `${version}`)
      })
      .then([])
    expect(times).toEqual(['2030-01-03T01:00:00.000Z', 'account-1', '2'])
  })

  test('a history that could not be is refused', async () => {
    const broken = given(account, [Deposited({ amount: -1 })]).when(withdraw(1))
    expect(await failureOf(broken.then([]))).toContain("data of event 'deposited' is invalid")
  })
})

describe('given events', () => {
  const opened = () => {
    const rows = new Map<string, string>()
    const on = {
      opened: ({ stream, at }: { stream: string; at: Date }) => rows.set(stream, at.toISOString()),
      closed: ({ stream }: { stream: string }) => rows.delete(stream),
    }
    return { rows, on, name: 'open-accounts', events: [Opened, Closed] } as const
  }

  test('a projection makes something of them, at their times', async () => {
    const { rows, ...options } = opened()
    const openAccounts = defineProjection({ ...options, transactional: false })
    const history = givenEvents(
      [
        ['account-1', Opened({ owner: 'ann' }), Deposited({ amount: 1 })],
        later('2d'),
        ['account-2', Opened({ owner: 'bob' })],
        ['account-1', Closed()],
      ],
      { events: [Deposited] },
    )
    const run = history.when(openAccounts)
    await run.thenRead(() => [...rows], [['account-2', '2030-01-03T00:00:00.000Z']])
    expect(await failureOf(run.thenRead(() => [...rows], []))).toContain(
      'the projection came to something else',
    )
    expect(await run.seen()).toEqual({ table: 'open_accounts_1' })
  })

  test('an inline one, too', async () => {
    const { rows, ...options } = opened()
    const run = givenEvents([['account-1', Opened({ owner: 'ann' })]]).when(
      defineProjection({ ...options, inline: true }),
    )
    await run.thenRead(({ table }) => [table, ...rows.keys()], [undefined, 'account-1'])
  })

  test('in a store of the test’s own, in its transactions', async () => {
    const { store, projection, sums, clock } = await summed()
    const history = [
      ['account-1', Deposited({ amount: 2 })],
      later('1h'),
      ['account-1', Deposited({ amount: 3 })],
    ] as const
    const run = givenEvents(history, { store, clock }).when(projection)
    await run.thenRead(({ table }) => sums.read(table as string), ['account-1: 5/2'])
    expect(await failureOf(givenEvents(history, { store }).when(projection).seen())).toContain(
      'needs the clock',
    )
  })

  test('what a handler throws comes to light', async () => {
    const broken = defineProjection({
      name: 'broken',
      events: [Closed],
      transactional: false,
      on: {
        closed: () => {
          throw new Error('a bug')
        },
      },
    })
    expect(
      await codeOf(
        givenEvents([['account-1', Closed()]])
          .when(broken)
          .seen(),
      ),
    ).toBe('a bug')
  })
})
