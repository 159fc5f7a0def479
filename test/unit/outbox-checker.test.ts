/** The judge of chaos around an outbox must be able to convict, and to let go: each crime is named, and what is right is not. */
import { describe, expect, test } from 'vitest'
import { checkOutbox } from '../chaos/outbox/checker.js'
import type { OutboxEvidence } from '../chaos/outbox/evidence.js'
import type { Delivery, OutboxEvent } from '../chaos/outbox/history.js'
import type { Order } from '../chaos/outbox/orders.js'

describe('what belongs to an order', () => {
  test('has arrived if and only if its transaction committed', () => {
    expect(crimes({ orders: [order('a')] })).toEqual([])
    const committed = evidence({ orders: [order('a')] })
    expect(texts({ ...committed, deliveries: [delivery('job', 'a')] })).toEqual([
      '1 orders without a message: a',
    ])
    expect(texts({ ...committed, jobs: [] })).toEqual(['1 orders without a job: a'])
    expect(checkOutbox({ ...committed, jobs: [], deliveries: [] }).lost).toBe(2)
    const idle = { ...committed, events: committed.events.filter(({ e }) => e !== 'effect') }
    expect(texts(idle)).toEqual(['1 jobs of orders did not run: a completed'])
    expect(texts({ ...committed, jobs: [{ id: 'a', state: 'pending' }] })).toEqual([
      '1 jobs of orders did not run: a pending',
    ])
  })

  test('is not seen of what was rolled back, as a message, a job, an effect or a row that was set aside', () => {
    const undone: OutboxEvent[] = [
      { e: 'tried', t: 1, ids: ['b'] },
      { e: 'undone', t: 2, ids: ['b'] },
    ]
    const clean = evidence({ orders: [order('a')], events: undone })
    expect(checkOutbox(clean).violations).toEqual([])
    const seen = (more: Partial<OutboxEvidence>) => texts({ ...clean, ...more })
    const orphan = (name: string) => `1 arrived without an order: ${name}`
    expect(seen({ deliveries: [...clean.deliveries, delivery('message', 'b')] })).toEqual([
      orphan('message b'),
    ])
    expect(seen({ jobs: [...clean.jobs, { id: 'b', state: 'dead' }] })).toEqual([orphan('job b')])
    expect(seen({ events: [...clean.events, { e: 'effect', t: 9, id: 'b' }] })).toEqual([orphan('effect b')])
    expect(seen({ aside: [{ kind: 'job', id: 'b' }] })).toContain(orphan('aside b'))
  })

  test('is decided by its row where nobody heard of the commit, and counted', () => {
    const doubtful = evidence({ orders: [order('a')] })
    const events = doubtful.events.filter(({ e }) => e !== 'committed')
    expect(checkOutbox({ ...doubtful, events })).toMatchObject({ violations: [], committed: 1, doubtful: 1 })
  })

  test('convicts a database that loses what it said is committed, or keeps what was rolled back', () => {
    const gone: OutboxEvent = { e: 'committed', t: 1, ids: ['a', 'gone'] }
    const undone: OutboxEvent = { e: 'undone', t: 1, ids: ['a'] }
    const base = evidence({ orders: [order('a')] })
    expect(crimesOf({ ...base, events: [...base.events, gone] })).toEqual(['I1'])
    expect(crimesOf({ ...base, events: [...base.events, undone] })).toEqual(['I2'])
    expect(crimes({ orders: [order('a')], tried: [] })).toEqual(['I2'])
  })

  test('may be handed on twice, which is counted; but a job runs once, unless its server was killed', () => {
    const base = evidence({ orders: [order('a')] })
    const twice = { ...base, deliveries: [...base.deliveries, ...base.deliveries] }
    expect(checkOutbox(twice)).toMatchObject({ violations: [], duplicates: { job: 1, message: 1 } })
    const rerun = { ...base, events: [...base.events, { e: 'effect', t: 9, id: 'a' } as const] }
    expect(checkOutbox(rerun)).toMatchObject({ rerun: 1, violations: [{ invariant: 'I3' }] })
    expect(checkOutbox({ ...rerun, mayRerun: true })).toMatchObject({ rerun: 1, violations: [] })
  })
})

describe('poison', () => {
  const bad = order('a:bad-message')
  const job = { deliveries: [delivery('job', bad.id)], orders: [bad] }

  test('is set aside once, and its job arrives', () => {
    expect(crimes({ ...job, aside: [{ kind: 'message', id: bad.id }] })).toEqual([])
  })

  test('that is not set aside, or twice, or something else that is, is I12; one that was taken is a fault here', () => {
    const row = { kind: 'message', id: bad.id } as const
    expect(crimes(job)).toEqual(['I12'])
    expect(crimes({ ...job, aside: [row, row] })).toEqual(['I12'])
    expect(crimes({ ...job, aside: [row, { kind: 'job', id: bad.id }] })).toEqual(['I12'])
    const taken = [...job.deliveries, delivery('message', bad.id)]
    expect(crimes({ ...job, deliveries: taken, aside: [row] })).toEqual(['harness'])
  })
})

describe('messages of one key', () => {
  const orders = ['a', 'b', 'c', 'd'].map((id, i) => order(id, { key: 'k', n: i + 1 }))
  const line = (text: string, batches = '') =>
    [...text].map((id, i) => delivery('message', id, batches[i] ?? String(i)))
  const judged = (text: string, batches = '', hasZombies = false) =>
    crimeTexts({
      orders,
      deliveries: [...line(text, batches), ...orders.map(({ id }) => delivery('job', id))],
      hasZombies,
    })

  test('arrive in their order, and what comes again begins anywhere and leaves nothing out', () => {
    for (const text of ['abcd', 'aabcd', 'abcabcd', 'abcbcd', 'abcdcd', 'abcdd'])
      expect(judged(text)).toEqual([])
  })

  test('that overtake one which has not come are I12', () => {
    expect(judged('acbd', '', true)).toEqual([
      '1 messages overtook others of their keys: k 2 by relay, before 1',
    ])
    expect(judged('acbd')).toHaveLength(2)
    expect(judged('bacd', '', true)).toHaveLength(1)
  })

  test('that come again without those in between are I12, unless a relay lives on that has lost its rows', () => {
    expect(judged('abcdac')).toEqual(['1 messages came again without those before: k 2 by relay, after 0'])
    expect(judged('abcdac', '', true)).toEqual([])
  })

  test('that are not in order in a batch are I12, whatever else goes on', () => {
    const text = '1 messages not in order in their batch: k 2 by relay, after 0'
    expect(judged('abcdac', '111122', true)).toEqual([text])
    expect(judged('abcdabba', '11112233', true)).toEqual([
      '1 messages not in order in their batch: k 0 by relay, after 1',
    ])
  })

  test('pass by those that never arrive, and those without a key have no order', () => {
    const bad = order('bad:bad-message', { key: 'k', n: 2 })
    const some = [orders[0] as Order, bad, ...orders.slice(2)]
    const aside = [{ kind: 'message', id: bad.id }] as const
    expect(crimes({ orders: some, aside })).toEqual([])
    const free = ['x', 'y'].map((id) => order(id))
    const reversed = [...free].reverse().flatMap(({ id }) => [delivery('message', id), delivery('job', id)])
    expect(crimes({ orders: free, deliveries: reversed })).toEqual([])
  })
})

describe('claims', () => {
  const row = ['message a']
  const claimed = (by: string, t: number): OutboxEvent => ({
    e: 'claimed',
    t,
    by,
    claim: '1',
    how: 'poll',
    rows: row,
  })
  const tried = (by: string, t: number): OutboxEvent => ({ e: 'settle-try', t, by, claim: '1' })
  const result = (by: string, t: number, result: 'settled' | 'lost'): OutboxEvent => ({
    e: 'settle-result',
    t,
    by,
    claim: '1',
    result,
  })
  const zombie = (answer: 'settled' | 'lost') => [
    claimed('one', 10),
    claimed('two', 20),
    tried('two', 21),
    result('two', 22, 'settled'),
    tried('one', 30),
    result('one', 31, answer),
  ]

  test('of a relay that stood still are refused: one that was accepted is I3', () => {
    const base = { orders: [order('a')], hasZombies: true }
    expect(judge({ ...base, events: zombie('lost') })).toMatchObject({
      violations: [],
      staleAttempts: 1,
      refusedStale: 1,
    })
    expect(crimes({ ...base, events: zombie('settled') })).toEqual(['I3'])
  })

  test('are one at a time where no relay stood still', () => {
    expect(crimes({ orders: [order('a')], events: zombie('lost') })).toEqual(['I4'])
    const apart = [claimed('one', 10), tried('one', 11), result('one', 12, 'settled'), claimed('two', 20)]
    expect(crimes({ orders: [order('a')], events: apart })).toEqual([])
  })

  test('of a lost relay become others’ in time; how long it took is told', () => {
    const losses = [{ name: 'one', t: 15 }]
    const base = { orders: [order('a')], losses }
    expect(judge({ ...base, events: [claimed('one', 10), claimed('two', 50)] })).toMatchObject({
      recoveries: [35],
      violations: [],
    })
    expect(crimes({ ...base, events: [claimed('one', 10), claimed('two', 5_000)] })).toEqual(['I13'])
    expect(crimes({ ...base, events: [claimed('one', 10)] })).toEqual(['I13'])
  })

  test('of a lost relay that were settled, or may have been, or were another’s by then, need no recovery', () => {
    const losses = [{ name: 'one', t: 15 }]
    const ends = [[tried('one', 14)], [tried('one', 13), result('one', 14, 'settled')], [claimed('two', 12)]]
    for (const end of ends)
      expect(crimes({ orders: [order('a')], losses, events: [claimed('one', 10), ...end] })).toEqual([])
  })
})

test('what still waits at the end is I13, and errors are shown only where there is reason', () => {
  expect(crimes({ orders: [order('a')], drainedAfterMs: undefined })).toEqual(['I13'])
  const error: OutboxEvent = { e: 'error', t: 5, code: 'UNKNOWN', during: 'outbox.claim', message: 'no' }
  expect(crimes({ orders: [order('a')], events: [error] })).toEqual(['errors'])
  expect(crimes({ orders: [order('a')], events: [error], mayComplain: true })).toEqual([])
})

interface Given extends Partial<OutboxEvidence> {
  readonly orders: readonly Order[]
  readonly tried?: readonly string[]
}

/** All that is right for these orders, but for what is given. */
function evidence({ orders, events = [], tried, ...given }: Given): OutboxEvidence {
  const ids = orders.map(({ id }) => id)
  const jobs = ids.filter((id) => !id.endsWith(':bad-job'))
  return {
    orders,
    events: [
      { e: 'tried', t: 0, ids: tried ?? ids },
      { e: 'committed', t: 0, ids },
      ...jobs.map((id) => ({ e: 'effect' as const, t: 0, id })),
      ...events,
    ],
    deliveries: [
      ...ids.filter((id) => !id.endsWith(':bad-message')).map((id) => delivery('message', id, id)),
      ...jobs.map((id) => delivery('job', id, id)),
    ],
    jobs: jobs.map((id) => ({ id, state: 'completed' })),
    aside: [],
    losses: [],
    drainedAfterMs: 5,
    limits: { drainMs: 1_000, recoveryMs: 1_000 },
    hasZombies: false,
    mayRerun: false,
    mayComplain: false,
    ...given,
  }
}

function judge(given: Given) {
  return checkOutbox(evidence(given))
}

function crimes(given: Given): string[] {
  return crimesOf(evidence(given))
}

function crimesOf(given: OutboxEvidence): string[] {
  return checkOutbox(given).violations.map(({ invariant }) => invariant)
}

function crimeTexts(given: Given): string[] {
  return texts(evidence(given))
}

function texts(given: OutboxEvidence): string[] {
  return checkOutbox(given).violations.map(({ text }) => text)
}

function order(id: string, { key, n = 0 }: Partial<Order> = {}): Order {
  return { id, key, n }
}

function delivery(kind: Delivery['kind'], id: string, batch = id): Delivery {
  return { kind, id, by: 'relay', batch }
}
