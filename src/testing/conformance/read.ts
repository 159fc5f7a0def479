import assert from 'node:assert/strict'
import { bounds } from '../../core/bounds.js'
import { shortFailure } from '../../core/failure.js'
import { type ClaimedJob, type JobState, jobStates, type NewJob } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import { released, snoozed, totalNames } from '../../core/lifecycle.js'
import type { JobFilter, Store } from '../../core/store.js'
import {
  claim,
  claimOne,
  complete,
  die,
  failureOf,
  idsOf,
  insertMany,
  insertOne,
  jobIn,
  lease,
  listAll,
  newJob,
  operateAll,
  plain,
  randomFrom,
  read,
  replay,
  rescue,
  retryIn,
  running,
  settle,
  sorted,
  statesOfAll,
  stop,
  sweep,
  type Test,
  timeOf,
  wait,
} from './helpers.js'

export function getTests(test: Test): void {
  test('get answers in order, undefined for what is not there, as often as asked', async ({ store }) => {
    const [a, b] = await insertMany(store, 2)
    const records = await store.get(['nobody', b, a, b, '', 'a\0b', "'; \\"] as string[])
    assert.deepEqual(
      records.map((record) => record?.id),
      [undefined, b, a, b, undefined, undefined, undefined],
    )
    assert.deepEqual(await store.get([]), [])
  })

  test('get reads a thousand jobs at once', async ({ store }) => {
    const ids = await insertMany(store, 1_000)
    assert.deepEqual(
      (await store.get(ids)).map((record) => record?.id),
      ids,
    )
  })
}

export function trailTests(test: Test): void {
  test('a job without history has an empty trail, an unknown one has none', async ({ store }) => {
    const id = await insertOne(store)
    assert.deepEqual(await store.trail(id), { attempts: [], logs: [], steps: [] })
    assert.equal(await store.trail('nobody'), undefined)
  })

  test('failed, crashed and dead attempts are kept with times, worker and a short failure', async ({
    store,
    advance,
  }) => {
    const failure = failureOf('greet', 'x'.repeat(5_000))
    const start = await timeOf(store)
    const id = await insertOne(store)
    const first = await claimOne(store, 'w1')
    await advance(10)
    await settle(store, first, retryIn(5, failure), { worker: 'w1' })
    await advance(5)
    await sweep(store)
    await claimOne(store, 'w2')
    await advance(lease)
    const [orphan] = (await sweep(store)).orphans
    assert.ok(orphan)
    assert.equal(await rescue(store, orphan), 'applied')
    const third = await claimOne(store, 'w3')
    await settle(store, third, die(failure), { worker: 'w3' })
    const attempts = (await store.trail(id))?.attempts ?? []
    const seen = attempts.map(({ attempt, startedAt, endedAt, worker, to }) => ({
      attempt,
      startedAt,
      endedAt,
      worker,
      to,
    }))
    const later = start + 15 + lease
    assert.deepEqual(seen, [
      { attempt: 1, startedAt: start, endedAt: start + 10, worker: 'w1', to: 'retrying' },
      { attempt: 2, startedAt: start + 15, endedAt: later, worker: 'w2', to: 'pending' },
      { attempt: 3, startedAt: later, endedAt: later, worker: 'w3', to: 'dead' },
    ])
    assert.equal(plain(attempts[0]?.failure), plain(shortFailure(failure)))
    assert.equal(plain(attempts[2]?.failure), plain(shortFailure(failure)))
    assert.equal(attempts[1]?.failure?.message, 'the worker was lost')
    assert.equal((await read(store, id)).failure?.message, failure.message, 'the last one is kept whole')
  })

  test('a completed attempt is no part of the trail', async ({ store }) => {
    const job = await running(store)
    await settle(store, job, complete('1'))
    assert.deepEqual((await store.trail(job.id))?.attempts, [])
  })

  test('attempts that were given back do not shift the numbers', async ({ store, advance }) => {
    const id = await insertOne(store)
    for (const outcome of [released(), snoozed(1), retryIn(1), released(), retryIn(1)]) {
      await settle(store, await claimOne(store), outcome)
      await advance(1)
      await sweep(store)
    }
    const failed = (await store.trail(id))?.attempts.filter((attempt) => attempt.failure !== undefined)
    assert.deepEqual(
      failed?.map(({ attempt, to }) => [attempt, to]),
      [
        [1, 'retrying'],
        [2, 'retrying'],
      ],
    )
  })

  test(`the last ${bounds.attemptsKept} attempts are kept`, async ({ store }) => {
    const id = await insertOne(store, { maxAttempts: 100 })
    for (let i = 1; i <= bounds.attemptsKept + 5; i++) {
      const failure = failureOf('greet', `failure of attempt ${i}`)
      await settle(store, await claimOne(store), retryIn(0, failure))
      await sweep(store)
    }
    const attempts = (await store.trail(id))?.attempts ?? []
    assert.deepEqual(
      attempts.map(({ attempt, failure }) => [attempt, failure?.message]),
      Array.from({ length: bounds.attemptsKept }, (_, i) => [i + 6, `failure of attempt ${i + 6}`]),
    )
  })

  test('a replayed job keeps the history of its first life', async ({ store }) => {
    const job = await running(store)
    await settle(store, job, die())
    await replay(store, job.id)
    assert.deepEqual(
      (await store.trail(job.id))?.attempts.map(({ to }) => to),
      ['dead'],
    )
  })
}

export function listTests(test: Test): void {
  test('of dead jobs those are found that a replay can mend', async ({ store }) => {
    const died = failureOf('greet', 'it is over')
    const root = { id: 'x', name: 'greet', message: died.message, cause: died.cause }
    const failures = [
      died,
      { ...died, code: 'CHILD_FAILED', root },
      { ...died, code: 'COMPENSATED' },
      { ...died, code: 'FLOW_INCOMPLETE' },
    ]
    const ids: string[] = []
    for (const failure of failures) {
      const job = await running(store)
      ids.push(job.id)
      await settle(store, job, die(failure))
    }
    assert.deepEqual(idsOf(await listAll(store, { state: 'dead', mendable: true })), ids.slice(0, 1))
    assert.deepEqual(idsOf(await listAll(store, { state: 'dead' })).sort(), [...ids].sort())
    const filter = { state: 'dead', mendable: true } as const
    assert.deepEqual((await store.operate({ filter, limit: 9 }, { do: 'remove' })).affected, ids.slice(0, 1))
  })

  for (const state of jobStates) {
    test(`${state} jobs are listed page by page, each once, as get shows them`, async ({ store }) => {
      const ids: string[] = []
      for (let i = 0; i < 7; i++) ids.push(await jobIn(store, state))
      for (const other of jobStates) if (other !== state) await jobIn(store, other)
      for (const limit of [1, 2, 3, 7, 8]) {
        const jobs = await listAll(store, { state }, limit)
        assert.deepEqual(sorted(idsOf(jobs)), sorted(ids), `limit ${limit}`)
        assert.deepEqual(jobs, await store.get(idsOf(jobs)))
      }
    })
  }

  for (const state of jobStates) {
    test(`${state} jobs are found by queue, name, tag, time, and all of them`, async ({ store, advance }) => {
      const made: { id: string; queue: string; name: string; tags: string[]; at: number }[] = []
      for (let i = 0; i < 12; i++) {
        const job = {
          queue: `q${i % 2}`,
          name: `n${i % 3}`,
          tags: i % 4 === 0 ? ['rare', 'x'] : ['x', `t${i}`],
        }
        const id = await jobIn(store, state, job)
        made.push({ ...job, id, at: await timeIn(store, id, state) })
        await advance(10)
      }
      const times = made.map(({ at }) => at)
      const [after, before] = [times[3], times[9]] as [number, number]
      await expectFound({ queue: 'q1' }, (job) => job.queue === 'q1')
      await expectFound({ name: 'n2' }, (job) => job.name === 'n2')
      await expectFound({ tag: 'rare' }, (job) => job.tags.includes('rare'))
      await expectFound({ after }, (job) => job.at >= after)
      await expectFound({ before }, (job) => job.at < before)
      await expectFound({ after, before }, (job) => job.at >= after && job.at < before)
      await expectFound({ queue: 'q0', name: 'n0', tag: 'rare' }, (job) =>
        ['q0', 'n0', 'rare'].every(
          (text) => text === job.queue || text === job.name || job.tags.includes(text),
        ),
      )
      await expectFound({ queue: 'nobody' }, () => false)
      await expectFound({ tag: 'rar' }, () => false)

      async function expectFound(
        filter: Omit<JobFilter, 'state'>,
        wanted: (job: (typeof made)[number]) => boolean,
      ) {
        const found = await listAll(store, { state, ...filter }, 3)
        assert.deepEqual(sorted(idsOf(found)), sorted(idsOf(made.filter(wanted))), JSON.stringify(filter))
      }
    })
  }

  test('the dead are found by cause', async ({ store }) => {
    const causes = [failureOf('greet', 'one'), failureOf('greet', 'two'), failureOf('greet', 'three')]
    const ids = await insertMany(store, 9)
    for (const [i, job] of (await claim(store, 9)).entries()) await settle(store, job, die(causes[i % 3]))
    for (const [k, { cause }] of causes.entries()) {
      const found = await listAll(store, { state: 'dead', cause }, 2)
      assert.deepEqual(sorted(idsOf(found)), sorted(ids.filter((_, i) => i % 3 === k)))
    }
    assert.deepEqual(await listAll(store, { state: 'dead', cause: 'unknown' }), [])
  })

  test('a rare job among many is found, however many pages it takes', async ({ store }) => {
    await insertMany(store, 1_500, { delay: 100 })
    const id = await insertOne(store, { delay: 50, tags: ['needle'] })
    await insertMany(store, 1_500, { delay: 20 })
    assert.deepEqual(idsOf(await listAll(store, { state: 'scheduled', tag: 'needle' }, 10)), [id])
  })

  test('pages do not repeat or skip a job that stays, while others come and go', async ({ store }) => {
    const ids = await insertMany(store, 20)
    const leaving = new Set([ids[0], ids[5], ids[19]])
    const seen: string[] = []
    let cursor: string | undefined
    for (let page = 0; page < 200; page++) {
      const found = await store.list({ filter: { state: 'pending' }, limit: 3, cursor })
      seen.push(...idsOf(found.jobs))
      cursor = found.cursor
      if (cursor === undefined) break
      if (page === 0) await store.operate({ ids: [...leaving] as string[] }, { do: 'remove' })
      if (page < 5) await insertOne(store)
    }
    assert.equal(cursor, undefined)
    assert.equal(new Set(seen).size, seen.length, 'none twice')
    assert.ok(
      ids.filter((id) => !leaving.has(id)).every((id) => seen.includes(id)),
      'none skipped',
    )
  })
}

export function countTests(test: Test): void {
  test('an empty store counts nothing', async ({ store }) => {
    assert.deepEqual(await store.counts(), { kinds: [], paused: [] })
    assert.deepEqual(await store.causes(), [])
  })

  test('counts are kept by queue, name and lane, one entry each', async ({ store }) => {
    const kinds: Partial<NewJob>[] = [
      { queue: 'a', name: 'x', lane: 0 },
      { queue: 'a', name: 'x', lane: 1 },
      { queue: 'a', name: 'y', lane: 0 },
      { queue: 'b', name: 'x', lane: 0 },
    ]
    for (const [i, kind] of kinds.entries()) {
      // What else may differ does not make another kind.
      for (let n = 0; n <= i; n++) await insertOne(store, { ...kind, maxAttempts: n + 1, maxCrashes: n + 1 })
    }
    const counts = (await store.counts()).kinds
    assert.equal(counts.length, kinds.length)
    for (const [i, { queue, name, lane }] of kinds.entries()) {
      const entry = counts.find((kind) => kind.queue === queue && kind.name === name && kind.lane === lane)
      assert.equal(entry?.states.pending, i + 1)
      assert.equal(entry?.totals.enqueued, i + 1)
      assert.deepEqual(sorted(Object.keys(entry?.states ?? {})), sorted(jobStates))
      assert.deepEqual(sorted(Object.keys(entry?.totals ?? {})), sorted(totalNames))
    }
  })

  test('each outcome adds to its totals, once', async ({ store, advance }) => {
    const outcomes = [complete(), retryIn(1), die(), stop(), released(), snoozed(1), wait()]
    await insertMany(store, outcomes.length)
    for (const [i, job] of (await claim(store, outcomes.length)).entries()) {
      await settle(store, job, outcomes[i] ?? complete())
      await settle(store, job, outcomes[i] ?? complete())
    }
    await claim(store, 1, { worker: 'lost' })
    await advance(lease)
    const { orphans } = await sweep(store)
    for (const orphan of orphans) await rescue(store, orphan)
    const [kind, ...others] = (await store.counts()).kinds
    assert.deepEqual(others, [])
    assert.deepEqual(kind?.totals, {
      enqueued: 7,
      completed: 1,
      failed: 2,
      retried: 1,
      dead: 1,
      cancelled: 1,
      crashed: 1,
      pruned: 0,
      shed: 0,
      deferred: 0,
    })
  })

  test('counts equal what list finds, for every state, after a workout', async ({ store, advance }) => {
    const random = randomFrom(20_240_601)
    const worked = { inserted: 0, seen: new Set<string>() }
    for (let round = 0; round < 40; round++) await workout(store, advance, random, worked)
    await expectCountsMatchLists(store)
    const { enqueued } = await totalsOfAll(store)
    assert.equal(enqueued, worked.inserted)
  })
}

export function causeTests(test: Test): void {
  test('the dead are grouped by cause', async ({ store, advance }) => {
    const start = await timeOf(store)
    const timeout = failureOf('greet', 'timeout after 30 s')
    const other = failureOf('greet', 'refused')
    const ids = await insertMany(store, 4)
    for (const [i, job] of (await claim(store, 4)).entries()) {
      await advance(10)
      await settle(store, job, die(i === 2 ? other : timeout))
    }
    const causes = await store.causes()
    const group = causes.find(({ cause }) => cause === timeout.cause)
    assert.equal(causes.length, 2)
    assert.deepEqual([group?.name, group?.message, group?.count], ['greet', timeout.message, 3])
    assert.deepEqual([group?.firstAt, group?.lastAt], [start + 10, start + 40])
    assert.ok([ids[0], ids[1], ids[3]].includes(group?.sample))
    assert.equal(causes.find(({ cause }) => cause === other.cause)?.count, 1)
  })

  test('groups shrink by remove and by retention, and end', async ({ store, advance }) => {
    const failure = failureOf('greet', 'same')
    const ids = await insertMany(store, 4)
    for (const [i, job] of (await claim(store, 4)).entries()) {
      await settle(store, job, die(failure, { completed: 0, dead: 100 * (i + 1) }))
    }
    assert.equal((await store.causes())[0]?.count, 4)
    await store.operate({ ids: [ids[3] as string] }, { do: 'remove' })
    assert.equal((await store.causes())[0]?.count, 3)
    await advance(100)
    await sweep(store)
    assert.equal((await store.causes())[0]?.count, 2)
    await operateAll(store, { state: 'dead' }, { do: 'remove' }, 1)
    assert.deepEqual(await store.causes(), [])
  })

  test('a failure that is retried is no death', async ({ store }) => {
    await settle(store, await running(store), retryIn(5))
    assert.deepEqual(await store.causes(), [])
  })
}

/** The time that `after` and `before` are about. */
async function timeIn(store: Store, id: string, state: JobState): Promise<number> {
  const { createdAt, dueAt, startedAt, finishedAt } = await read(store, id)
  if (state === 'scheduled' || state === 'retrying') return dueAt ?? 0
  if (state === 'running') return startedAt ?? 0
  return finishedAt ?? createdAt
}

async function totalsOfAll(store: Store): Promise<Record<string, number>> {
  const { kinds } = await store.counts()
  return Object.fromEntries(
    totalNames.map((name) => [name, kinds.reduce((sum, kind) => sum + kind.totals[name], 0)]),
  )
}

async function expectCountsMatchLists(store: Store): Promise<void> {
  const counted = await statesOfAll(store)
  const { kinds } = await store.counts()
  for (const state of jobStates) {
    const listed = await listAll(store, { state }, 50)
    assert.equal(counted[state], listed.length, state)
    for (const { queue, name, lane, states } of kinds) {
      const alike = listed.filter((job) => job.queue === queue && job.name === name && job.lane === lane)
      assert.equal(states[state], alike.length, `${state} ${queue} ${name} ${lane}`)
    }
  }
}

/** One round of everything, with choices from `random`; keeps count of what it put in. */
async function workout(
  store: Store,
  advance: (ms: number) => Promise<void> | void,
  random: (below: number) => number,
  worked: { inserted: number },
): Promise<void> {
  const jobs = Array.from({ length: 1 + random(6) }, () =>
    newJob({
      queue: `q${random(2)}`,
      name: `n${random(2)}`,
      lane: random(laneCount),
      delay: random(3) === 0 ? random(40) : 0,
      maxCrashes: 1 + random(2),
    }),
  )
  await store.insert(jobs)
  worked.inserted += jobs.length
  const claimed = await claim(store, random(8), {
    worker: `w${random(3)}`,
    queues: ['q0', 'q1'],
    leaseMs: 50,
  })
  for (const job of claimed) await settleSomehow(store, job, random)
  await advance(random(30))
  const { orphans } = await sweep(store, { keep: { completed: 20, dead: 10 } })
  for (const orphan of orphans) await rescue(store, orphan)
  const state = jobStates[random(jobStates.length)] as JobState
  const commands = [
    { do: 'cancel', reason: 'workout', retain: random(2) * 50 },
    {
      do: 'retry',
      delay: random(2) * 5,
      spacing: 1,
      change: { lane: random(laneCount), queue: `q${random(2)}` },
    },
    { do: 'promote' },
    { do: 'remove' },
  ] as const
  const command = commands[random(commands.length)] ?? { do: 'promote' }
  await store.operate({ filter: { state }, limit: 1 + random(3) }, command)
}

async function settleSomehow(
  store: Store,
  job: ClaimedJob,
  random: (below: number) => number,
): Promise<void> {
  const keep = { completed: random(3) * 40, dead: random(3) * 40 }
  const worker = (await read(store, job.id)).worker ?? 'nobody'
  const outcomes = [
    complete('1', keep),
    retryIn(random(20)),
    die(failureOf(job.name, `cause ${'abc'[random(3)]}`), keep),
    stop('workout', keep),
    released(),
    snoozed(random(20)),
    wait(),
    undefined,
  ]
  const outcome = outcomes[random(outcomes.length)]
  if (outcome !== undefined) assert.equal(await settle(store, job, outcome, { worker }), 'applied')
}
