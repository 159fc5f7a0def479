/** Limits as settings, and whom they hold up and whom not. */
import assert from 'node:assert/strict'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  countBy,
  idsOf,
  insertMany,
  insertOne,
  newJob,
  nextSignal,
  settle,
  sorted,
  sweep,
  type Test,
} from './helpers.js'
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
  withBoth,
  withKey,
} from './traffic-helpers.js'

export function limitSettings(test: Test): void {
  test('what was chosen at run time wins over what the code declares, until it is cleared', async ({
    store,
  }) => {
    await declare(store, jobGate(), { limit: { concurrency: 3 } })
    await insertMany(store, 30, { traffic: gated })
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
    await insertMany(store, 3, { traffic: withKey('a') })
    await insertMany(store, 3, { traffic: withKey('b') })
    assert.deepEqual(
      (await claim(store, 9)).map(({ key }) => key),
      ['a', 'b'],
    )
  })

  test('a key’s or group’s own limit wins over that of each', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await choose(store, keyGate('big'), { limit: { concurrency: 3 } })
    for (const key of ['big', 'small']) await insertMany(store, 5, { traffic: withKey(key) })
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
    await insertMany(store, 3, { queue: 'future', name: 'x', traffic: inGroup('g') })
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
    const ids = await insertMany(store, 6, { traffic: inGroup('g') })
    await insertMany(store, 3, { traffic: inGroup('h') })
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
    await insertMany(store, 3_000, { traffic: inGroup('big') })
    await choose(store, groupGate('big'), { limit: { concurrency: 1 } })
    assert.equal((await claim(store, 1)).length, 1)
    const { claimed, opens } = await ask(store, 1)
    assert.deepEqual([claimed, opens], [[], 0], 'comes back before all are moved')
    const id = await insertOne(store, { traffic: inGroup('small') })
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
        const grouped = newJob({ name: 'free', traffic: inGroup('other') })
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
    await insertMany(store, 5, { name: 'free', traffic: inGroup('tenant') })
    const [running] = await claim(store, 9)
    await insertMany(store, 5, { traffic: { ...gated, group: 'tenant' } })
    await insertMany(store, 5, { name: 'free', traffic: inGroup('tenant') })
    await choose(store, jobGate(), { limit: { concurrency: 0 } })
    await settle(store, running as ClaimedJob, complete())
    assert.equal((await drain(harness)).length, 9, 'all that are not of the closed definition')
  })

  test('jobs of a key that wait elsewhere do not use up its places', async (harness) => {
    const { store } = harness
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await choose(store, groupGate('off'), { paused: true })
    await insertOne(store, { traffic: withBoth('off', 'k') })
    const ids = await insertMany(store, 4, { traffic: withBoth('on', 'k') })
    assert.deepEqual(await drain(harness), ids)
  })

  test('a job that goes on to wait for its key leaves its place to the next of its group', async (harness) => {
    const { store } = harness
    await choose(store, groupGate('g'), { limit: { concurrency: 1 } })
    await insertOne(store, { traffic: inGroup('g') })
    const running = await claimOne(store)
    await insertOne(store, { traffic: withBoth('g', 'k') })
    // Of the same line, behind it.
    const next = await insertOne(store, { traffic: withBoth('g', 'other') })
    await settle(store, running, complete())
    await insertOne(store, { queue: 'elsewhere', traffic: inGroup('g') })
    await claim(store, 1, { queues: ['elsewhere'] })
    await choose(store, keyGate('k'), { paused: true })
    assert.deepEqual(await drain(harness), [next])
  })

  test('jobs of a key in a paused queue do not hold up those of another queue', async (harness) => {
    const { store } = harness
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await store.configure({ queue: 'off', paused: true })
    await insertMany(store, 3, { queue: 'off', traffic: withKey('k') })
    const ids = await insertMany(store, 4, { traffic: withKey('k') })
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

  test('a worker leaves jobs with limits alone whose definition it does not have', async ({ store }) => {
    await choose(store, jobGate(), { limit: { rate: rate(3, 1_000) } })
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await insertMany(store, 5, { traffic: withKey('k') })
    const free = await insertMany(store, 2, { name: 'free' })
    const exchange = (...known: string[]) =>
      store.exchange({
        worker: 'worker',
        settlements: [],
        claim: { ...claimRequest(9), known: new Set(known) },
      })
    const stranger = await exchange('free')
    assert.deepEqual([idsOf(stranger.claimed), stranger.opens], [free, undefined])
    assert.deepEqual((await exchange('free')).claimed, [])
    assert.equal((await exchange('free', 'greet')).claimed.length, 1, 'and none of their limit was used up')
  })

  test('an id that exists is not inserted again, in a queue that is new either', async ({ store }) => {
    await choose(store, jobGate('one'), { limit: { concurrency: 1 } })
    const id = await insertOne(store)
    assert.deepEqual(await store.insert([newJob({ id, name: 'one', queue: 'other' })]), [
      { status: 'duplicate', state: 'pending' },
    ])
    assert.deepEqual(await claim(store, 9, { queues: ['other'] }), [])
    assert.deepEqual(idsOf(await claim(store, 9)), [id])
  })

  test('a place that comes back is told in every queue of the definition, however late it came', async ({
    store,
  }) => {
    await choose(store, jobGate(), { limit: { concurrency: 1 } })
    await insertMany(store, 2, { traffic: gated })
    await settle(store, await claimOne(store), complete())
    const second = await claimOne(store)
    await insertOne(store, { queue: 'other', traffic: gated })
    const told = nextSignal(store, (signal) => signal.type === 'ready' && signal.queues.has('other'))
    await settle(store, second, complete())
    await told
    assert.equal((await claim(store, 9, { queues: ['other'] })).length, 1)
  })

  test('settings tell those who wait for work', async ({ store }) => {
    await choose(store, jobGate(), { limit: { concurrency: 0 } })
    await insertOne(store, { traffic: gated })
    const told = nextSignal(store, (signal) => signal.type === 'ready' && signal.queues.has('main'))
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
    { job: { traffic: gated }, close: (store) => choose(store, jobGate(), { limit: { concurrency: 0 } }) },
  ],
  [
    'their definition, undeclared',
    { job: {}, close: (store) => choose(store, jobGate(), { limit: { concurrency: 0 } }) },
  ],
  [
    'their key',
    { job: { traffic: withKey('k') }, close: (store) => choose(store, keyGate('k'), { paused: true }) },
  ],
  [
    'their group',
    { job: { traffic: inGroup('g') }, close: (store) => choose(store, groupGate('g'), { paused: true }) },
  ],
  [
    'their breaker',
    { job: { traffic: gated }, close: (store) => store.configure({ job: 'greet', breaker: 'open' }) },
  ],
]
