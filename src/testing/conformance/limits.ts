/** Limits as settings, whom they hold up and whom not, and what readers see of jobs that wait for them. */
import assert from 'node:assert/strict'
import type { JobFlow } from '../../core/flow/settings.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { limited } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  ask,
  choose,
  completeAll,
  declare,
  drain,
  gated,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  keyGate,
  queueGate,
  rate,
  startAndComplete,
  withBoth,
  withKey,
} from './flow-helpers.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  idsOf,
  insertMany,
  insertOne,
  listAll,
  newJob,
  operateAll,
  read,
  retryIn,
  settle,
  sorted,
  statesOf,
  succeeds,
  sweep,
  type Test,
  unreadable,
} from './helpers.js'

export function limitSettings(test: Test): void {
  test('what was chosen at run time wins over what the code declares, until it is cleared', async ({
    store,
  }) => {
    await declare(store, jobGate(), { limit: { concurrency: 3 } })
    await insertMany(store, 30, { flow: gated })
    const running = [...(await claim(store, 9))]
    assert.equal(running.length, 3)
    await choose(store, jobGate(), { limit: { concurrency: 5 } })
    running.push(...(await claim(store, 9)))
    assert.equal(running.length, 5)
    await declare(store, jobGate(), { limit: { concurrency: 9 } })
    assert.deepEqual(await claim(store, 9), [], 'the chosen one wins')
    await choose(store, jobGate(), { limit: null })
    assert.equal((await claim(store, 9)).length, 4)
    await declare(store, jobGate(), { limit: null })
    assert.equal((await claim(store, 30)).length, 21)
  })

  test('levels are merged field by field, and readers see both', async ({ store }) => {
    const breaker = { failureRate: 0.5, minimum: 10, window: 1_000, cooldown: 1_000, probes: 1 }
    await declare(store, jobGate(), { limit: { concurrency: 2 }, breaker })
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    const gate = await gateOf(store, jobGate())
    assert.deepEqual(gate?.ref, jobGate())
    assert.deepEqual(gate?.declared, { limit: { concurrency: 2 }, breaker })
    assert.deepEqual(gate?.chosen, { each: { concurrency: 1 } })
    await insertMany(store, 3, { flow: withKey('a') })
    await insertMany(store, 3, { flow: withKey('b') })
    assert.deepEqual(
      (await claim(store, 9)).map(({ key }) => key),
      ['a', 'b'],
    )
  })

  test('a key’s or group’s own limit wins over that of each', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await choose(store, keyGate('big'), { limit: { concurrency: 3 } })
    for (const key of ['big', 'small']) await insertMany(store, 5, { flow: withKey(key) })
    const claimed = await claim(store, 20)
    assert.deepEqual(countBy(claimed, 'key'), { big: 3, small: 1 })
    await completeAll(store, claimed)
    await choose(store, keyGate('big'), { limit: null })
    assert.deepEqual(countBy(await claim(store, 20), 'key'), { big: 1, small: 1 })
  })

  test('settings can come before the first job, and twice', async ({ store }) => {
    for (const _ of [1, 2]) {
      await choose(store, queueGate('future'), { limit: { concurrency: 2 }, each: { concurrency: 1 } })
      await choose(store, jobGate('later'), { limit: { concurrency: 1 } })
    }
    await insertMany(store, 3, { queue: 'future', name: 'later' })
    await insertMany(store, 3, { queue: 'future', name: 'x', flow: inGroup('g') })
    await insertMany(store, 3, { queue: 'future', name: 'y' })
    const claimed = await claim(store, 9, { queues: ['future'] })
    assert.equal(claimed.length, 2)
  })

  test('a limit that comes while jobs wait holds for them too, and nobody is lost', async (harness) => {
    const { store } = harness
    const ids = await insertMany(store, 10)
    const free = await insertMany(store, 5, { name: 'free' })
    const scheduled = await insertMany(store, 2, { delay: 5 })
    await choose(store, jobGate(), { limit: { concurrency: 2 } })
    const first = await claim(store, 30)
    assert.deepEqual(idsOf(first.filter(({ name }) => name === 'greet')), ids.slice(0, 2))
    assert.deepEqual(idsOf(first.filter(({ name }) => name === 'free')), free)
    await harness.advance(5)
    await sweep(store)
    assert.deepEqual(await claim(store, 30), [])
    await completeAll(store, first)
    assert.deepEqual(await drain(harness), [...ids.slice(2), ...scheduled])
  })

  test('a limit that comes while jobs of a group wait holds for them too', async ({ store }) => {
    const ids = await insertMany(store, 6, { flow: inGroup('g') })
    await insertMany(store, 3, { flow: inGroup('h') })
    const [first] = await claim(store, 1)
    await choose(store, jobGate(), { limit: { concurrency: 2 } })
    assert.equal((await claim(store, 9)).length, 1)
    assert.equal((await gateOf(store, jobGate()))?.running, 2)
    await settle(store, first as ClaimedJob, complete())
    const next = await claim(store, 9)
    assert.equal(next.length, 1)
    assert.ok(ids.includes(first?.id as string))
  })

  test('many jobs that got a limit while they waited do not hide those behind them', async (harness) => {
    const { store } = harness
    await insertMany(store, 5_000)
    const free = await insertOne(store, { name: 'free' })
    await choose(store, jobGate(), { limit: { concurrency: 0 } })
    for (let i = 0; i < 10; i++) {
      const { claimed, opens } = await ask(store, 5)
      if (claimed.length === 0) assert.equal(opens, 0, 'the store knows that it has not looked at all')
      else return assert.deepEqual(idsOf(claimed), [free])
    }
    assert.fail('never found')
  })

  test('a group that closes with thousands in line is moved out of the way a bounded number at a time', async ({
    store,
  }) => {
    await insertMany(store, 3_000, { flow: inGroup('big') })
    await choose(store, groupGate('big'), { limit: { concurrency: 1 } })
    assert.equal((await claim(store, 1)).length, 1)
    const { claimed, opens } = await ask(store, 1)
    assert.deepEqual([claimed, opens], [[], 0], 'comes back before all are moved')
    const id = await insertOne(store, { flow: inGroup('small') })
    const seen: string[] = []
    for (let i = 0; i < 5; i++) seen.push(...idsOf((await ask(store, 1)).claimed))
    assert.deepEqual(seen, [id])
  })

  for (const order of ['before', 'after'] as const) {
    for (const [what, settings] of holdUps) {
      test(`jobs that came ${order} those that are held up by ${what} do not wait for them`, async ({
        store,
      }) => {
        await settings.close(store)
        const free = newJob({ name: 'free' })
        const grouped = newJob({ name: 'free', flow: inGroup('other') })
        if (order === 'before') await store.insert([free, grouped])
        await insertMany(store, 20, settings.job)
        if (order === 'after') await store.insert([free, grouped])
        const found: string[] = []
        for (let i = 0; i < 4; i++) found.push(...idsOf(await claim(store, 1)))
        assert.deepEqual(sorted(found), sorted([free.id, grouped.id]))
      })
    }
  }

  test('a group that is held up by one definition’s limit goes on with the others', async (harness) => {
    const { store } = harness
    await choose(store, queueGate(), { each: { concurrency: 1 } })
    await insertMany(store, 5, { name: 'free', flow: inGroup('tenant') })
    const [running] = await claim(store, 9)
    await insertMany(store, 5, { flow: { ...gated, group: 'tenant' } })
    await insertMany(store, 5, { name: 'free', flow: inGroup('tenant') })
    await choose(store, jobGate(), { limit: { concurrency: 0 } })
    await settle(store, running as ClaimedJob, complete())
    assert.equal((await drain(harness)).length, 9, 'all that are not of the closed definition')
  })

  test('jobs of a key that wait elsewhere do not use up its places', async (harness) => {
    const { store } = harness
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await choose(store, groupGate('off'), { paused: true })
    await insertOne(store, { flow: withBoth('off', 'k') })
    const ids = await insertMany(store, 4, { flow: withBoth('on', 'k') })
    assert.deepEqual(await drain(harness), ids)
  })

  test('a job that goes on to wait for its key leaves its place to the next of its group', async (harness) => {
    const { store } = harness
    await choose(store, groupGate('g'), { limit: { concurrency: 1 } })
    await insertOne(store, { flow: inGroup('g') })
    const running = await claimOne(store)
    await insertOne(store, { flow: withBoth('g', 'k') })
    // Of the same line, behind it.
    const next = await insertOne(store, { flow: withBoth('g', 'other') })
    await settle(store, running, complete())
    await insertOne(store, { queue: 'elsewhere', flow: inGroup('g') })
    await claim(store, 1, { queues: ['elsewhere'] })
    await choose(store, keyGate('k'), { paused: true })
    assert.deepEqual(await drain(harness), [next])
  })

  test('jobs of a key in a paused queue do not hold up those of another queue', async (harness) => {
    const { store } = harness
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await store.configure({ queue: 'off', paused: true })
    await insertMany(store, 3, { queue: 'off', flow: withKey('k') })
    const ids = await insertMany(store, 4, { flow: withKey('k') })
    assert.deepEqual(await drain(harness, ['main', 'off']), ids)
  })

  test('a queue whose jobs all wait for a limit leaves its room to the others', async ({ store }) => {
    await choose(store, queueGate(), { limit: { concurrency: 1 } })
    await insertMany(store, 9)
    await insertMany(store, 9, { queue: 'other' })
    assert.deepEqual(countBy(await claim(store, 8, { queues: ['main', 'other'] }), 'queue'), {
      main: 1,
      other: 7,
    })
  })

  test('settings tell those who wait for work', async ({ store }) => {
    await choose(store, jobGate(), { limit: { concurrency: 0 } })
    await insertOne(store, { flow: gated })
    const told = new Promise<void>((resolve) => {
      const stop = store.subscribe((signal) => {
        if (signal.type !== 'ready' || !signal.queues.has('main')) return
        stop()
        resolve()
      })
    })
    await choose(store, jobGate(), { limit: null })
    await told
  })
}

interface HoldUp {
  readonly job: Partial<NewJob>
  close(store: Store): Promise<void>
}

const holdUps: readonly [string, HoldUp][] = [
  [
    'their definition',
    { job: { flow: gated }, close: (store) => choose(store, jobGate(), { limit: { concurrency: 0 } }) },
  ],
  [
    'their definition, undeclared',
    { job: {}, close: (store) => choose(store, jobGate(), { limit: { concurrency: 0 } }) },
  ],
  [
    'their key',
    { job: { flow: withKey('k') }, close: (store) => choose(store, keyGate('k'), { paused: true }) },
  ],
  [
    'their group',
    { job: { flow: inGroup('g') }, close: (store) => choose(store, groupGate('g'), { paused: true }) },
  ],
  [
    'their breaker',
    { job: { flow: gated }, close: (store) => store.configure({ job: 'greet', breaker: 'open' }) },
  ],
]

export function holdTests(test: Test): void {
  test('a hold closes the key for its time, spends no attempt, and leaves other keys alone', async ({
    store,
    advance,
  }) => {
    const [first] = await insertMany(store, 3, { flow: withKey('k') })
    const other = await insertOne(store, { flow: withKey('other') })
    const job = await claimOne(store)
    assert.equal(await settle(store, job, limited(500)), 'applied')
    assert.deepEqual([(await read(store, job.id)).state, (await read(store, job.id)).attempt], ['pending', 0])
    const { claimed, opens } = await ask(store, 9)
    assert.deepEqual([idsOf(claimed), opens], [[other], 500])
    await advance(499)
    assert.deepEqual((await ask(store, 9)).opens, 1)
    assert.deepEqual(await claim(store, 9), [])
    const gate = await gateOf(store, keyGate('k'))
    assert.deepEqual([gate?.room, gate?.pending, gate?.running], [0, 3, 0])
    await advance(1)
    const again = await claim(store, 9)
    assert.equal(again.length, 3)
    assert.deepEqual(again.find(({ id }) => id === first)?.attempt, 1)
  })

  test('a hold of a job without a key closes its definition, in all queues', async ({ store, advance }) => {
    await insertMany(store, 3)
    await insertMany(store, 3, { queue: 'other' })
    const free = await insertOne(store, { name: 'free' })
    const job = await claimOne(store)
    await settle(store, job, limited(200))
    const { claimed, opens } = await ask(store, 9, 'worker', ['main', 'other'])
    assert.deepEqual([idsOf(claimed), opens], [[free], 200])
    await advance(200)
    assert.equal((await claim(store, 9, { queues: ['main', 'other'] })).length, 6)
  })

  test('a hold of a job without a key counts nobody twice', async ({ store, advance }) => {
    await insertMany(store, 9)
    const [first, second, third] = await claim(store, 3)
    await settle(store, first as ClaimedJob, limited(10))
    const gate = await gateOf(store, jobGate())
    assert.equal(gate?.running, 2, 'two run on')
    await choose(store, jobGate(), { limit: { concurrency: 2 } })
    await advance(10)
    assert.deepEqual(await claim(store, 9), [], 'so there is no room')
    await settle(store, second as ClaimedJob, complete())
    await settle(store, third as ClaimedJob, complete())
    assert.equal((await claim(store, 9)).length, 2)
  })

  test('the longer of two holds counts, whichever came first', async ({ store, advance }) => {
    for (const [queue, holds] of [
      ['a', [100, 50]],
      ['b', [50, 100]],
    ] as const) {
      await insertMany(store, 2, { queue, flow: withKey(queue) })
      const jobs = await claim(store, 2, { queues: [queue] })
      for (const [i, hold] of holds.entries()) await settle(store, jobs[i] as ClaimedJob, limited(hold))
    }
    const queues = ['a', 'b']
    await advance(99)
    assert.deepEqual(await claim(store, 9, { queues }), [])
    await advance(1)
    assert.equal((await claim(store, 9, { queues })).length, 4)
  })

  test('jobs that come while their key is held wait for it as well, in order', async ({ store, advance }) => {
    const [first, second] = await insertMany(store, 2, { flow: withKey('k') })
    await settle(store, await claimOne(store), limited(50))
    const third = await insertOne(store, { flow: withKey('k') })
    assert.deepEqual(await claim(store, 9), [])
    await advance(50)
    assert.deepEqual(idsOf(await claim(store, 9)), [first, second, third])
  })
}

export function parkedJobs(test: Test): void {
  test('a job is pending for every reader, once, wherever it waits', async ({ store }) => {
    const ids = await everywhere(store)
    for (const limit of [1, 3, 7, 1_000]) {
      const listed = idsOf(await listAll(store, { state: 'pending' }, limit))
      assert.deepEqual(sorted(listed), sorted(ids), `pages of ${limit}`)
    }
    assert.equal((await statesOf(store)).pending + (await statesOf(store, 'other')).pending, ids.length)
    for (const record of await store.get(ids)) assert.equal(record?.state, 'pending')
  })

  test('readers see group and key, pending and later', async ({ store }) => {
    const id = await insertOne(store, { flow: withBoth('g', 'k') })
    const seen = async () => {
      const { group, key } = await read(store, id)
      return [group, key]
    }
    assert.deepEqual(await seen(), ['g', 'k'])
    const job = await claimOne(store)
    assert.deepEqual([job.group, job.key], ['g', 'k'])
    assert.deepEqual(await seen(), ['g', 'k'])
    await settle(store, job, retryIn(5))
    assert.deepEqual(await seen(), ['g', 'k'])
  })

  test('a job that was scheduled, retried or replayed elsewhere keeps its group and key', async ({
    store,
    advance,
  }) => {
    const flow = withBoth('g', 'k')
    const id = await insertOne(store, { flow, delay: 5, queue: 'fresh' })
    const check = async (queue: string) => {
      const [job] = await claim(store, 1, { queues: [queue] })
      assert.deepEqual([job?.id, job?.group, job?.key], [id, 'g', 'k'])
      return job as ClaimedJob
    }
    await advance(5)
    await sweep(store)
    await settle(store, await check('fresh'), retryIn(5))
    await advance(5)
    await sweep(store)
    await settle(store, await check('fresh'), complete())
    await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: { queue: 'fresher' } })
    await settle(store, await check('fresher'), complete())
    await store.operate({ ids: [id] }, { do: 'retry', delay: 5, spacing: 0, change: { queue: 'freshest' } })
    await store.operate({ ids: [id] }, { do: 'promote' })
    await check('freshest')
  })

  test('scheduled jobs of a key obey its limit once they are due', async ({ store, advance }) => {
    await insertMany(store, 5, { flow: withKey('k'), delay: 5, queue: 'fresh' })
    await choose(store, keyGate('k'), { limit: { concurrency: 2 } })
    await advance(5)
    await sweep(store)
    assert.equal((await claim(store, 9, { queues: ['fresh'] })).length, 2)
  })

  test('a filter finds jobs that wait for a limit, and commands reach them', async (harness) => {
    const { store } = harness
    const ids = await everywhere(store)
    const others = idsOf(await listAll(store, { state: 'pending', queue: 'other' }))
    const report = await operateAll(store, { state: 'pending', queue: 'main' }, { do: 'remove' }, 4)
    assert.deepEqual(sorted([...report.affected, ...others]), sorted(ids))
    assert.deepEqual(report.refused, [])
    assert.equal((await statesOf(store)).pending, 0)
    await openAll(store)
    assert.deepEqual(sorted(await drain(harness, ['main', 'other'])), sorted(others))
  })

  test('cancelled and replayed jobs wait for their limits again', async ({ store }) => {
    await choose(store, keyGate('k'), { limit: { concurrency: 1 } })
    const ids = await insertMany(store, 4, { flow: withKey('k') })
    const running = await claimOne(store)
    assert.deepEqual(await claim(store, 9), [])
    const waiting = ids.filter((id) => id !== running.id)
    await store.operate({ ids: waiting }, { do: 'cancel', reason: 'no', retain: 1_000 })
    await store.operate({ ids: waiting }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    assert.deepEqual(await claim(store, 9), [])
    await settle(store, running, complete())
    const seen: string[] = []
    for (let i = 0; i < 4; i++) {
      const claimed = await claim(store, 9)
      assert.ok(claimed.length <= 1)
      seen.push(...idsOf(claimed))
      await completeAll(store, claimed)
    }
    assert.deepEqual(sorted(seen), sorted(waiting))
  })

  test('a job that comes when the gate is open again does not overtake those behind it', async ({
    store,
    advance,
  }) => {
    await choose(store, keyGate('slow'), { limit: { rate: rate(1, 50) } })
    await choose(store, groupGate('narrow'), { limit: { concurrency: 1 } })
    for (const flow of [withKey('slow'), inGroup('narrow')]) {
      const [first, second, third] = await insertMany(store, 3, { flow })
      const running = await claimOne(store)
      assert.equal(running.id, first)
      assert.deepEqual(await claim(store, 9), [])
      await settle(store, running, complete())
      await advance(50)
      const late = await insertOne(store, { flow })
      const seen: string[] = []
      for (let i = 0; i < 3; i++) {
        const claimed = await claim(store, 9)
        seen.push(...idsOf(claimed))
        await completeAll(store, claimed)
        await advance(50)
      }
      assert.deepEqual(seen, [second, third, late])
    }
  })

  test('a call that fails half-way leaves limits as they were', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    const [first, second] = await insertMany(store, 2, { flow: withBoth('g', 'k') })
    const job = await claimOne(store)
    assert.equal(job.id, first)
    const jobs = [newJob({ flow: withBoth('g', 'k') }), unreadable({ flow: withBoth('g', 'k') })]
    if (!(await succeeds(store.insert(jobs)))) {
      assert.equal((await gateOf(store, keyGate('k')))?.pending, 1)
      assert.equal((await gateOf(store, groupGate('g')))?.pending, 1)
      const settlements = [{ id: job.id, token: job.token, outcome: complete(), inserts: jobs }]
      const exchange = store.exchange({ worker: 'worker', settlements, claim: claimRequest(5) })
      assert.equal(await succeeds(exchange), false)
      assert.deepEqual(await claim(store, 5), [], 'it still runs')
    }
    await settle(store, job, complete())
    assert.equal((await claim(store, 5))[0]?.id, second)
    assert.deepEqual(await claim(store, 5), [])
  })

  test('removing all that waits behind a closed gate leaves it as if they had never been', async ({
    store,
  }) => {
    await choose(store, jobGate(), { each: { rate: rate(1, 100) } })
    const ids = await insertMany(store, 50, { flow: withBoth('g', 'k') })
    assert.equal(await startAndComplete(store, 9), 1)
    assert.equal((await gateOf(store, keyGate('k')))?.pending, 49)
    await store.operate({ ids }, { do: 'remove' })
    assert.equal((await gateOf(store, groupGate('g')))?.pending ?? 0, 0)
    assert.equal((await gateOf(store, keyGate('k')))?.pending ?? 0, 0)
    assert.deepEqual((await ask(store, 9)).opens, undefined)
    const next = await insertOne(store, { flow: withBoth('g', 'other') })
    assert.deepEqual(idsOf(await claim(store, 9)), [next])
  })

  test('a claim repeated with its token returns groups, keys and all', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 2 } })
    await insertMany(store, 5, { flow: withBoth('g', 'k') })
    const request = { worker: 'worker', settlements: [], claim: claimRequest(5) }
    const { claimed } = await store.exchange(request)
    assert.equal(claimed.length, 2)
    assert.deepEqual((await store.exchange(request)).claimed, claimed)
    assert.deepEqual(await claim(store, 5), [])
  })
}

/** Jobs in plain lines, in lines of their own and behind closed gates, over two queues and all lanes. */
async function everywhere(store: Store): Promise<string[]> {
  await choose(store, jobGate(), { limit: { concurrency: 1 } })
  await choose(store, groupGate('off'), { paused: true })
  await choose(store, keyGate('off'), { paused: true })
  const flows: (JobFlow | undefined)[] = [
    undefined,
    gated,
    inGroup('off'),
    inGroup('on'),
    withKey('off'),
    withKey('on'),
  ]
  const ids: string[] = []
  for (const queue of ['main', 'other'])
    for (const lane of [0, 2, 3])
      for (const name of ['greet', 'free'])
        for (const flow of flows) ids.push(await insertOne(store, { queue, lane, name, flow }))
  return ids
}

async function openAll(store: Store): Promise<void> {
  await choose(store, groupGate('off'), { paused: null })
  await choose(store, keyGate('off'), { paused: null })
  await choose(store, jobGate(), { limit: null })
}

function countBy<T extends { readonly [P in K]?: string | undefined }, K extends keyof T>(
  items: readonly T[],
  by: K,
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) {
    const value = String(item[by])
    counts[value] = (counts[value] ?? 0) + 1
  }
  return counts
}
