/** The judge of the chaos runs must be able to convict: each test hands it one crime and expects its name. */
import { describe, expect, test } from 'vitest'
import { check, checkLanes, type Evidence, type FinalJob, type Violation } from '../chaos/checker.js'
import { checkEffects } from '../chaos/effects.js'
import { type ChaosFamily, checkFamilies } from '../chaos/families.js'
import type { HistoryEvent, Lease, SettledOutcome } from '../chaos/journal.js'
import { checkLimits } from '../chaos/limits.js'
import { describeLosses, lossesOf } from '../chaos/losses.js'
import { checkSlots } from '../chaos/slots.js'

describe('slots of schedules', () => {
  const schedule = {
    name: 'tick',
    every: 1_000,
    from: new Date(500),
    createdAt: new Date(700),
    last: new Date(3_500),
    fired: 3,
  }
  const idOf = (slot: number) => `schedule:tick:${new Date(slot).toISOString()}`
  const all = [1_500, 2_500, 3_500].map(idOf)

  test('one job each is right', () => {
    expect(checkSlots([...all, 'schedule:tick-2:x', 'another'], [schedule])).toEqual([])
  })

  test('a slot without a job, a job without a slot and a wrong count are I6', () => {
    const crimes: [string[], number, string][] = [
      [all.slice(1), 3, '1 slots without a job: 1970-01-01T00:00:01.500Z'],
      [[...all, idOf(4_500)], 3, '1 jobs of no slot: 1970-01-01T00:00:04.500Z'],
      [all, 4, 'it counts 4 slots, there were 3'],
    ]
    for (const [ids, fired, text] of crimes)
      expect(checkSlots(ids, [{ ...schedule, fired }])).toEqual([violation('I6', `schedule tick: ${text}`)])
  })
})

describe('jobs that wait for others', () => {
  const parent: ChaosFamily = { id: 'p', children: ['a', 'b'], kind: 'flow', spared: new Set() }
  const ended = (id: string, t: number) => settled(lease(id), { to: 'completed', t })
  const begun = (id: string, t: number): HistoryEvent => ({ e: 'start', ...lease(id), t })
  const final = (id: string, state: FinalJob['state']) => job(id, { state })
  const history = [...ended('a', 10), ...ended('b', 20), begun('p', 21), ...ended('p', 22)]
  const all = ['p', 'a', 'b'].map((id) => final(id, 'completed'))
  const crime = (events: readonly HistoryEvent[], jobs: readonly FinalJob[], family: ChaosFamily = parent) =>
    checkFamilies(events, jobs, [family]).map(({ text }) => text)

  test('a parent that runs after all of its children is right', () => {
    expect(crime(history, all)).toEqual([])
  })

  test('one that begins before, lives in spite of them, dies without them or misses some is I10', () => {
    const early = [...ended('a', 10), begun('p', 15), ...ended('b', 20), ...ended('p', 22)]
    expect(crime(early, all)).toEqual(['p went on before 1 of its children had ended, such as b'])
    const died = [final('p', 'completed'), final('a', 'dead'), final('b', 'completed')]
    expect(crime(history, died)).toEqual(['p is completed ; its children are to kill it: true'])
    expect(crime(history, died, { ...parent, spared: new Set(['a']) })).toEqual([])
    const killed = [{ ...final('p', 'dead'), failureCode: 'CHILD_FAILED' }, ...all.slice(1)]
    expect(crime(history, killed)).toEqual(['p is dead CHILD_FAILED; its children are to kill it: false'])
    expect(crime(history, all.slice(0, 2))[0]).toBe('p misses 1 of its children, such as b')
  })

  test('a fan that adds a child twice, or not at all, is I10', () => {
    const fan: ChaosFamily = { ...parent, kind: 'fan', children: 2 }
    const children = all.slice(1).map((child) => ({ ...child, parents: ['p'] }))
    expect(crime([], [all[0] as FinalJob, ...children], fan)).toEqual([])
    const doubled = [...children, { ...final('c', 'completed'), parents: ['p'] }]
    expect(crime([], [all[0] as FinalJob, ...doubled], fan)).toEqual(['p has 3 children, it was to add 2'])
    expect(crime([], all, fan)).toEqual(['p has 0 children, it was to add 2'])
  })

  test('a batch that does not tell what became of it, or tells what did not, is I10', () => {
    const batch: ChaosFamily = { ...parent, kind: 'batch' }
    const told = (...events: string[]) => [...all, ...events.map((event) => final(`p.${event}`, 'completed'))]
    expect(crime(history, told('onComplete', 'onSuccess'), batch)).toEqual([])
    expect(crime(history, told('onComplete'), batch)).toEqual(['p: onSuccess is undefined, due: true'])
    expect(crime(history, told('onComplete', 'onSuccess', 'onDead'), batch)).toEqual([
      'p: onDead is completed, due: false',
    ])
  })
})

describe('a server that forgets', () => {
  const forgotten = [{ from: 0, to: 100 }]
  const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
  const second = lease('a', { token: 't2', claimedAt: 140, worker: 'w2' })
  const twice = [
    ...enqueued('a'),
    ...started(first),
    ...settled(first, { to: 'completed', t: 30 }),
    ...started(second),
    ...settled(second, { to: 'completed', t: 150 }),
  ]

  test('may lose what was acknowledged then, which is counted', () => {
    const evidence = { events: [...completed('a'), ...enqueued('b')], jobs: [job('a')] }
    expect(judge({ ...evidence, forgotten })).toMatchObject({ violations: [], lost: 1 })
  })

  test('may lose what it had then, where a call is answered when others have done their parts', () => {
    const evidence = (tried: number, acked: number) => ({
      events: [
        ...completed('a'),
        ...enqueued('b').map((event) => ({ ...event, t: event.e === 'enqueue-try' ? tried : acked })),
      ],
      jobs: [job('a')],
      forgotten: [{ from: 20, to: 100 }],
    })
    const invariants = ({ violations }: ReturnType<typeof judge>) => violations.map((one) => one.invariant)
    expect(judge({ ...evidence(50, 300), several: true })).toMatchObject({ violations: [], lost: 1 })
    expect(invariants(judge(evidence(50, 300)))).toContain('I1')
    expect(invariants(judge({ ...evidence(5, 10), several: true }))).toContain('I1')
    expect(invariants(judge({ ...evidence(150, 300), several: true }))).toContain('I1')
  })

  test('may run again what completed then, where its end was answered when others had done their parts', () => {
    const late = [
      ...enqueued('a'),
      ...started(first),
      ...settled(first, { to: 'completed', t: 130 }),
      ...started(second),
      ...settled(second, { to: 'completed', t: 150 }),
    ].map((event) => (event.e === 'settle-try' && event.token === 't1' ? { ...event, t: 30 } : event))
    const evidence = {
      events: late,
      jobs: [job('a', { resultBy: 't2' })],
      forgotten: [{ from: 20, to: 100 }],
    }
    expect(judge({ ...evidence, several: true })).toMatchObject({ violations: [], rerun: 1 })
    expect(judge(evidence).violations.map(({ invariant }) => invariant)).toContain('I3')
  })

  test('may lose what moved to it then, where jobs move', () => {
    const settling = lease('b', { token: 't3', claimedAt: 10, worker: 'w1' })
    const evidence = {
      events: [
        ...completed('a'),
        ...enqueued('b'),
        ...started(settling),
        ...settled(settling, { to: 'completed', t: 30 }),
      ],
      jobs: [job('a')],
      forgotten: [{ from: 30, to: 100 }],
    }
    expect(judge({ ...evidence, several: true })).toMatchObject({ violations: [], lost: 1 })
    const invariants = ({ violations }: ReturnType<typeof judge>) => violations.map((one) => one.invariant)
    expect(invariants(judge(evidence))).toContain('I1')
    const later = { ...evidence, several: true, forgotten: [{ from: 500, to: 600 }] }
    expect(invariants(judge(later))).toContain('I1')
  })

  test('may run again what completed then, which is counted', () => {
    const jobs = [job('a', { resultBy: 't2' })]
    expect(judge({ events: twice, jobs, forgotten })).toMatchObject({ violations: [], rerun: 1 })
  })

  test('is accused of all that it loses of another time', () => {
    const later = [{ from: 500, to: 600 }]
    const lost = { events: [...completed('a'), ...enqueued('b')], jobs: [job('a')] }
    expect(judge({ ...lost, forgotten: later }).violations.map(({ invariant }) => invariant)).toContain('I1')
    const again = judge({ events: twice, jobs: [job('a', { resultBy: 't2' })], forgotten: later })
    expect(again.violations.map(({ invariant }) => invariant)).toContain('I3')
  })
})

describe('what crashes took', () => {
  const crashes = [
    { from: 1_000, at: 3_000, to: 4_000 },
    { from: 6_000, at: 8_000, to: 9_000 },
  ]
  const acked = (id: string, t: number) => ({ e: 'enqueue-ack' as const, id, t })
  const events = [
    acked('kept', 2_900),
    acked('old', 500),
    acked('first', 2_000),
    acked('read late', 3_500),
    acked('second', 7_000),
    acked('later', 9_500),
  ]

  test('counts for the first one after the acknowledgement, with its age', () => {
    expect(lossesOf({ events, jobs: [job('kept')] }, crashes)).toEqual([[2_500, 1_000, 0], [1_000]])
  })

  test('is told by the kill', () => {
    expect(describeLosses([[2_500, 1_000, 0], [1_000], []])).toBe(
      'lost per kill 0/1/3 (least/median/most), the oldest acknowledged 2500 ms before its kill',
    )
    expect(describeLosses([[], []])).toBe('lost per kill 0')
  })

  test('convicts the server, where it is older than the setting allows, or newer than the crash', () => {
    const { violations, lost } = judge({ events, jobs: [job('kept')], forgotten: crashes })
    expect(lost).toBe(5)
    expect(violations).toContainEqual({ invariant: 'I1', text: '2 acknowledged jobs are lost: old, later' })
  })
})

describe('an honest history', () => {
  test('has no violations', () => {
    expect(judge({}).violations).toEqual([])
  })

  test('counts a job that ran again before it completed and does not convict', () => {
    const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const second = lease('a', { token: 't2', claimedAt: 40, worker: 'w2', attempt: 2 })
    const verdict = judge({
      events: [
        ...enqueued('a'),
        ...started(first),
        ...settled(first, { to: 'pending', rescue: true, t: 30 }),
        ...started(second),
        ...settled(second, { to: 'completed', t: 50 }),
        // The first worker was only frozen. It wakes up, writes, and is refused.
        ...settled(first, { to: 'completed', t: 60 }, 'lost'),
      ],
      losses: [{ worker: 'w1', t: 15, held: ['a'] }],
    })
    expect(verdict).toMatchObject({
      violations: [],
      duplicates: 1,
      staleAttempts: 1,
      refusedStale: 1,
      recoveries: [25],
    })
  })

  test('may rescue a job by one who dies before it hears of it, and again by one who is refused', () => {
    const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const second = lease('a', { token: 't2', claimedAt: 40, worker: 'w2', attempt: 2 })
    const rescued = settled(first, { to: 'pending', rescue: true, t: 30 })
    const events = [
      ...enqueued('a'),
      ...started(first),
      rescued[0] as HistoryEvent,
      ...started(second),
      ...settled(first, { to: 'pending', rescue: true, t: 45 }, 'lost'),
      ...settled(second, { to: 'completed', t: 50 }),
    ]
    const losses = [{ worker: 'w1', t: 15, held: ['a'] }]
    expect(judge({ events, losses }).violations).toEqual([])
  })

  test('may hold a job whose enqueue nobody acknowledged', () => {
    const events = [...completed('a'), enqueued('b')[0] as HistoryEvent]
    expect(judge({ events, jobs: [job('a'), job('b')] })).toMatchObject({ violations: [], ambiguous: 1 })
    expect(judge({ events, jobs: [job('a')] })).toMatchObject({ violations: [], ambiguous: 1 })
  })

  test('may ask for a claim again with its token', () => {
    const held = lease('a')
    const events = [
      ...enqueued('a'),
      claimed(held),
      ...started(held),
      ...settled(held, { to: 'completed', t: 30 }),
    ]
    expect(judge({ events }).violations).toEqual([])
  })
})

describe('the checker convicts', () => {
  test('I1: a lost job', () => {
    const verdict = judge({ events: [...completed('a'), ...enqueued('b')] })
    expect(verdict.lost).toBe(1)
    expect(verdict.violations).toContainEqual(violation('I1', '1 acknowledged jobs are lost: b'))
  })

  test('I2: a job that nobody enqueued', () => {
    expect(judge({ jobs: [job('a'), job('x')] }).violations).toContainEqual(
      violation('I2', '1 jobs that nobody enqueued: x'),
    )
  })

  test('I2: a job whose enqueue was refused', () => {
    const refused: HistoryEvent = { e: 'enqueue-refused', t: 3, id: 'b', code: 'LEASE_LOST' }
    const events = [...completed('a'), enqueued('b')[0] as HistoryEvent, refused]
    expect(judge({ events, jobs: [job('a'), job('b')] }).violations).toContainEqual(
      violation('I2', '1 jobs exist although their enqueue was refused: b'),
    )
  })

  test('I3: a start after an accepted completion', () => {
    const again = lease('a', { token: 't2', claimedAt: 100, attempt: 2 })
    const verdict = judge({ events: [...completed('a'), ...started(again)] })
    expect(verdict.rerun).toBe(1)
    expect(verdict.violations).toContainEqual(violation('I3', '1 starts of jobs that had completed: a'))
  })

  test('I3: a start after a completion that only the final state shows', () => {
    const first = lease('a', { token: 't1' })
    const again = lease('a', { token: 't2', claimedAt: 100, attempt: 2 })
    const events = [
      ...enqueued('a'),
      ...started(first),
      // Killed before it could write down the answer.
      settled(first, { to: 'completed', t: 30 })[0] as HistoryEvent,
      ...started(again),
    ]
    expect(judge({ events, jobs: [job('a', { resultBy: 't1' })] }).rerun).toBe(1)
  })

  test('I3: a stale settlement that was accepted', () => {
    const zombie = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const heir = lease('a', { token: 't2', claimedAt: 40, worker: 'w2', attempt: 2 })
    const verdict = judge({
      events: [
        ...enqueued('a'),
        ...started(zombie),
        ...settled(zombie, { to: 'pending', rescue: true, t: 30 }),
        ...started(heir),
        ...settled(zombie, { to: 'completed', t: 60 }),
      ],
    })
    expect(verdict).toMatchObject({ staleAttempts: 1, refusedStale: 0 })
    expect(verdict.violations).toContainEqual(violation('I3', '1 stale settlements were accepted: a'))
  })

  test('I3: a result or progress that another lease wrote', () => {
    const events = completed('a')
    expect(judge({ events, jobs: [job('a', { resultBy: 'other' })] }).violations).toContainEqual(
      violation('I3', '1 jobs show the result of another lease: a'),
    )
    expect(
      judge({ events, jobs: [job('a', { resultBy: 'a-token', progressBy: 'other' })] }).violations,
    ).toContainEqual(violation('I3', '1 jobs show the progress of another lease: a'))
  })

  test('I4: two accepted terminal writes', () => {
    const held = lease('a')
    const events = [...completed('a'), ...settled(held, { to: 'dead', t: 40 })]
    expect(judge({ events }).violations).toEqual(
      expect.arrayContaining([
        violation('I4', '1 jobs with more than one accepted terminal write: a'),
        violation('I4', '1 jobs settled twice under one lease: a'),
      ]),
    )
  })

  test('I4: a claim while another lease is live', () => {
    const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const second = lease('a', { token: 't2', claimedAt: 20, worker: 'w2' })
    const events = [
      ...enqueued('a'),
      ...started(first),
      ...started(second),
      ...settled(second, { to: 'completed', t: 30 }),
    ]
    expect(
      judge({ events, jobs: [job('a', { resultBy: 't2', progressBy: 't2' })] }).violations,
    ).toContainEqual(violation('I4', '1 jobs were claimed while another lease was live: a'))
  })

  test('where answers get lost, the second one says `lost` of what the first one did', () => {
    const first = lease('a', { token: 't1', claimedAt: 10 })
    const second = lease('a', { token: 't2', claimedAt: 20, attempt: 2 })
    const added: HistoryEvent = { e: 'enqueue-refused', t: 12, id: 'b', code: 'LEASE_LOST' }
    const events = [
      ...enqueued('a'),
      ...started(first),
      enqueued('b')[0] as HistoryEvent,
      ...settled(first, { to: 'retrying', t: 12 }, 'lost'),
      added,
      ...started(second),
      ...settled(second, { to: 'completed', t: 30 }),
    ]
    const jobs = [job('a', { attempt: 2, resultBy: 't2', progressBy: 't2' }), job('b')]
    const invariants = (repeats: boolean) =>
      judge({ events, jobs, repeats }).violations.map(({ invariant }) => invariant)
    expect(invariants(true)).toEqual([])
    expect(invariants(false)).toEqual(expect.arrayContaining(['I2', 'I4']))
  })

  test('where answers get lost, a claim that nobody made way for is I4 all the same', () => {
    const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const second = lease('a', { token: 't2', claimedAt: 20, worker: 'w2' })
    const events = [
      ...enqueued('a'),
      ...started(first),
      ...started(second),
      ...settled(second, { to: 'completed', t: 30 }),
    ]
    const jobs = [job('a', { resultBy: 't2', progressBy: 't2' })]
    expect(judge({ events, jobs, repeats: true }).violations).toContainEqual(
      violation('I4', '1 jobs were claimed while another lease was live: a'),
    )
  })

  test('I4: a token that two workers got', () => {
    const events = [...completed('a'), claimed(lease('a', { worker: 'w2' }))]
    expect(judge({ events }).violations).toContainEqual(
      violation('I4', '1 tokens were given out twice: a-token'),
    )
  })

  test('I5: counts that do not match the rows', () => {
    expect(judge({ counts: { completed: 2 } }).violations).toContainEqual(
      violation('I5', '1 jobs are completed, the store counts 2'),
    )
  })

  test('I11: a start before the job is due', () => {
    const early = lease('a', { claimedAt: 20 })
    const events = [...enqueued('a', 500), ...started(early), ...settled(early, { to: 'completed', t: 30 })]
    expect(judge({ events }).violations).toContainEqual(
      violation('I11', '1 starts before the job was due: a by 480 ms'),
    )
  })

  test('I11: a retry before its backoff is over', () => {
    const first = lease('a', { token: 't1', claimedAt: 10 })
    const second = lease('a', { token: 'a-token', claimedAt: 50, attempt: 2 })
    const events = [
      ...enqueued('a'),
      ...started(first),
      ...settled(first, { to: 'retrying', delay: 100, t: 20 }),
      ...started(second),
      ...settled(second, { to: 'completed', t: 60 }),
    ]
    expect(judge({ events }).violations).toContainEqual(
      violation('I11', '1 starts before the job was due: a by 70 ms, a retry'),
    )
  })

  test('I11: more attempts or crashes than the caps allow', () => {
    expect(judge({ jobs: [job('a', { attempt: 7 })] }).violations).toContainEqual(
      violation('I11', '1 jobs had too many attempts: a'),
    )
    expect(judge({ jobs: [job('a', { crashes: 4 })] }).violations).toContainEqual(
      violation('I11', '1 jobs crashed more often than their cap: a'),
    )
  })

  test('I13: a backlog that does not drain', () => {
    const jobs = [job('a', { state: 'running', resultBy: undefined, progressBy: undefined })]
    expect(judge({ jobs, drainedAfterMs: undefined }).violations).toContainEqual(
      violation('I13', '1 jobs are still live 1000 ms after the last fault: a running'),
    )
  })

  test('I13: a job that comes back late', () => {
    const first = lease('a', { token: 't1', claimedAt: 10, worker: 'w1' })
    const second = lease('a', { claimedAt: 5_000, worker: 'w2', attempt: 2 })
    const events = [
      ...enqueued('a'),
      ...started(first),
      ...settled(first, { to: 'pending', rescue: true, t: 30 }),
      ...started(second),
      ...settled(second, { to: 'completed', t: 5_010 }),
    ]
    expect(judge({ events, losses: [{ worker: 'w1', t: 15, held: ['a'] }] }).violations).toContainEqual(
      violation('I13', '1 jobs of w1 came back late: a after 4985 ms'),
    )
  })

  test('an error shown to users that the fault does not excuse', () => {
    const busy: HistoryEvent = { e: 'error', t: 5, code: 'STORE_BUSY', during: 'exchange', message: 'busy' }
    const events = [...completed('a'), busy]
    expect(judge({ events }).violations).toContainEqual(
      violation('errors', 'users were shown STORE_BUSY 1 times, such as exchange: busy'),
    )
    expect(judge({ events, allowedErrors: ['STORE_BUSY'] }).violations).toEqual([])
  })
})

describe('I9: lanes', () => {
  const weights = [8, 4, 2, 1]
  const enqueuedPerLane = [80, 40, 20, 10]

  test('in turn by weight are fair', () => {
    const round = [0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0]
    const lanes = Array.from({ length: 10 }, () => round).flat()
    expect(checkLanes(startsIn(lanes), enqueuedPerLane, weights, { workers: 1, concurrency: 4 })).toEqual([])
  })

  test('convicts lanes that are emptied one after the other', () => {
    const lanes = enqueuedPerLane.flatMap((count, lane) => Array.from({ length: count }, () => lane))
    const violations = checkLanes(startsIn(lanes), enqueuedPerLane, weights, { workers: 1, concurrency: 4 })
    expect(violations).toContainEqual(violation('I9', 'lane 3 had 0.0 % of the starts, due 6.7 %'))
    expect(violations).toContainEqual(
      violation('I9', 'the lowest lane waited for 24 starts, the bound is 23'),
    )
  })

  function startsIn(lanes: readonly number[]): Lease[] {
    return lanes.map((lane, i) => lease(`job-${i}`, { lane }))
  }
})

describe('limits', () => {
  const limits = { rate: { max: 2, per: 100 }, concurrency: 2, perKey: 1 }
  const keyOf = (id: string) => id[0]

  test('that held are not convicted, at their edges either', () => {
    const events = [
      ...ran('a1', 0, 50),
      ...ran('b1', 50, 100),
      ...ran('a2', 100, 150),
      ...ran('b2', 150, 160),
    ]
    expect(checkLimits(events, keyOf, limits)).toEqual([])
  })

  test('too many starts in a window', () => {
    const events = [...ran('a1', 0, 10), ...ran('b1', 20, 30), ...ran('c1', 99, 110)]
    expect(checkLimits(events, keyOf, limits)).toEqual([violation('I7', '3 starts in 100 ms, limit 2')])
  })

  test('what comes back without having started is no start, but was held', () => {
    const back = (id: string, from: number, to: number): HistoryEvent[] => {
      const held = lease(id, { claimedAt: from, token: `${id}-${from}` })
      return [claimed(held), ...settled(held, { to: 'pending', t: to, idle: true })]
    }
    const events = [...ran('a1', 0, 10), ...back('b1', 20, 30), ...ran('c1', 99, 110)]
    expect(checkLimits(events, keyOf, limits)).toEqual([])
    const held = [...ran('a1', 0, 500), ...back('a2', 200, 300)]
    expect(checkLimits(held, keyOf, limits)).toEqual([
      violation('I8', '2 of key a ran at the same time, limit 1'),
    ])
  })

  test('too many at the same time, of all and of a key', () => {
    const events = [...ran('a1', 0, 500), ...ran('b1', 10, 500), ...ran('a2', 200, 300)]
    expect(checkLimits(events, keyOf, limits)).toEqual([
      violation('I8', '3 ran at the same time, limit 2'),
      violation('I8', '2 of key a ran at the same time, limit 1'),
    ])
  })

  test('one whose end two others told is free when it was told first', () => {
    const held = lease('a1', { claimedAt: 0, token: 't' })
    const end = { id: 'a1', token: 't', to: 'pending', delay: 0, rescue: true } as const
    const events: HistoryEvent[] = [
      ...started(held),
      { e: 'settle-try', t: 50, by: 'first', ...end },
      ...ran('a2', 55, 70),
      { e: 'settle-try', t: 60, by: 'second', ...end },
      { e: 'settle-result', t: 61, by: 'first', result: 'applied', ...end },
      { e: 'settle-result', t: 62, by: 'second', result: 'lost', ...end },
    ]
    expect(checkLimits(events, keyOf, limits)).toEqual([])
  })

  function ran(id: string, from: number, to: number): HistoryEvent[] {
    const held = lease(id, { claimedAt: from, token: `${id}-${from}` })
    return [...started(held), ...settled(held, { to: 'completed', t: to })]
  }
})

/** By default one job was enqueued, ran and completed. */
function judge(evidence: Partial<Evidence>) {
  const jobs = evidence.jobs ?? [job('a')]
  const counts: Record<string, number> = {}
  for (const { state } of jobs) counts[state] = (counts[state] ?? 0) + 1
  return check({
    events: completed('a'),
    jobs,
    counts,
    losses: [],
    drainedAfterMs: 10,
    limits: { drainMs: 1_000, recoveryMs: 1_000 },
    allowedErrors: [],
    ...evidence,
  })
}

function completed(id: string): HistoryEvent[] {
  const held = lease(id)
  return [...enqueued(id), ...started(held), ...settled(held, { to: 'completed', t: 30 })]
}

function enqueued(id: string, delay = 0): HistoryEvent[] {
  return [
    { e: 'enqueue-try', t: 0, id, lane: 2, delay },
    { e: 'enqueue-ack', t: 1, id },
  ]
}

function lease(id: string, fields: Partial<Lease> = {}): Lease {
  return { id, token: `${id}-token`, attempt: 1, lane: 2, claimedAt: 10, worker: 'w1', ...fields }
}

function claimed(held: Lease): HistoryEvent {
  return { e: 'claim', t: held.claimedAt, ...held }
}

function started(held: Lease): HistoryEvent[] {
  return [claimed(held), { e: 'start', t: held.claimedAt, ...held }]
}

function settled(
  { id, token }: Lease,
  { t, ...outcome }: Partial<SettledOutcome> & Pick<SettledOutcome, 'to'> & { t: number },
  result: 'applied' | 'lost' = 'applied',
): HistoryEvent[] {
  const settlement = { id, token, delay: 0, rescue: false, ...outcome }
  return [
    { e: 'settle-try', t, ...settlement },
    { e: 'settle-result', t: t + 1, result, ...settlement },
  ]
}

function job(id: string, fields: Partial<FinalJob> = {}): FinalJob {
  return {
    id,
    state: 'completed',
    attempt: 1,
    crashes: 0,
    maxAttempts: 3,
    maxCrashes: 3,
    resultBy: undefined,
    progressBy: undefined,
    ...fields,
  }
}

function violation(invariant: Violation['invariant'], text: string): Violation {
  return { invariant, text }
}

describe('effects of steps', () => {
  const effect = (name: string, t: number): HistoryEvent => ({
    e: 'effect',
    t,
    id: 'a',
    name,
    key: `a:${name}`,
  })
  const kept = (name: string, t: number): HistoryEvent => ({ e: 'step-kept', t, id: 'a', name })
  const judgeEffects = (events: HistoryEvent[], state: FinalJob['state'], saga: boolean) =>
    checkEffects(events, [{ ...job('a'), state }], () => saga).violations.map(({ text }) => text)
  const all = ['first', 'second', 'third', 'fourth'].flatMap((name, i) => [
    effect(name, 2 * i),
    kept(name, 2 * i + 1),
  ])

  test('are honest when each came once, or again before its step was kept', () => {
    expect(judgeEffects(all, 'completed', false)).toEqual([])
    expect(judgeEffects([effect('first', 0), ...all], 'completed', false)).toEqual([])
    const undone = [
      effect('flight', 0),
      effect('hotel', 1),
      effect('undo:hotel', 2),
      effect('undo:flight', 3),
    ]
    expect(judgeEffects(undone, 'cancelled', true)).toEqual([])
  })

  test('convict what came again, was lost, or is in the wrong order', () => {
    expect(judgeEffects([...all, effect('first', 99)], 'completed', false)).toEqual([
      expect.stringMatching(/took effect again/),
    ])
    expect(judgeEffects(all.slice(0, -2), 'completed', false)).toEqual([
      expect.stringMatching(/not each step once/),
    ])
    expect(judgeEffects(all, 'dead', false)).toEqual([expect.stringMatching(/did not complete/)])
    const wrong: [string, string[], FinalJob['state']][] = [
      ['not undone in reverse', ['flight', 'hotel', 'undo:flight', 'undo:hotel'], 'cancelled'],
      ['was not undone', ['flight', 'hotel', 'undo:flight'], 'cancelled'],
      ['after the undoing began', ['flight', 'undo:hotel', 'undo:flight', 'hotel'], 'cancelled'],
      ['not all was done', ['flight', 'hotel'], 'completed'],
      ['neither done nor undone', ['flight'], 'dead'],
    ]
    for (const [complaint, names, state] of wrong) {
      const events = names.map((name, i) => effect(name, i))
      expect(judgeEffects(events, state, true), complaint).toEqual([expect.stringContaining(complaint)])
    }
  })
})
