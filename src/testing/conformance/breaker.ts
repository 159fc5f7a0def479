/** A definition’s circuit breaker: opens on failures, starts nothing meanwhile, probes, closes. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { completedBefore, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import {
  claim,
  complete,
  die,
  insertMany,
  insertOne,
  read,
  retention,
  retryIn,
  settle,
  stop,
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
  jobGate,
  rescueAll,
  withKey,
} from './traffic-helpers.js'

const policy = { failureRate: 0.5, minimum: 4, window: 1_000, cooldown: 500, probes: 2 }

export function breakerTests(test: Test): void {
  test('opens when the share of failed runs is reached, not below the minimum', async ({ store }) => {
    await prepare(store)
    await run(store, [die(), die(), die()])
    assert.equal(await phase(store), 'closed', 'three runs mean nothing')
    await run(store, [complete()])
    assert.equal(await phase(store), 'open', 'three of four failed, the last was good')
    assert.deepEqual(await claim(store, 9), [])
  })

  test('stays closed below the share', async ({ store }) => {
    await prepare(store)
    await run(store, [complete(), complete(), die(), complete(), die(), complete(), die()])
    assert.equal(await phase(store), 'closed')
    await run(store, [die()])
    assert.equal(await phase(store), 'open', 'four of eight')
  })

  test('counts retries and lost workers as failures', async (harness) => {
    const { store } = harness
    await prepare(store)
    await run(store, [retryIn(5), retryIn(5), complete()])
    assert.equal((await claim(store, 1, { worker: 'lost' })).length, 1)
    await choose(store, jobGate(), { breaker: { ...policy, window: 60_000 } })
    await rescueAll(harness)
    assert.equal(await phase(store), 'open')
  })

  test('released, snoozed, cancelled and excused runs count as neither', async ({ store }) => {
    await prepare(store)
    const excused: Outcome = { ...retryIn(5), excused: true }
    await run(store, [released(), snoozed(5), excused, { ...die(), excused: true }, stop(), excused])
    await run(store, [die(), die(), die()])
    assert.equal(await phase(store), 'closed', 'only three count')
    await run(store, [released(), excused, snoozed(5), stop(), completedBefore('1', retention)])
    assert.equal(await phase(store), 'closed')
    await run(store, [die()])
    assert.equal(await phase(store), 'open')
  })

  test('the window forgets', async ({ store, advance }) => {
    await prepare(store)
    await run(store, [die(), die(), die()])
    await advance(policy.window)
    await run(store, [die(), die(), complete()])
    assert.equal(await phase(store), 'closed')
    await advance(policy.window / 2)
    await run(store, [die()])
    assert.equal(await phase(store), 'open', 'what is younger counts')
  })

  test('good runs of long ago do not keep it closed, however many they were', async ({ store, advance }) => {
    await prepare(store)
    for (let i = 0; i < 3; i++) await completeAll(store, await claim(store, 9))
    await advance(policy.window)
    await run(store, [die(), die(), die(), die()])
    assert.equal(await phase(store), 'open')
  })

  test('while it is open nothing starts, no attempt is spent, and the exchange says when it ends', async ({
    store,
    advance,
  }) => {
    await open(store)
    const id = await insertOne(store, { traffic: gated })
    await advance(100)
    const { claimed, opens } = await ask(store, 9)
    assert.deepEqual([claimed, opens], [[], policy.cooldown - 100])
    const gate = await gateOf(store, jobGate())
    assert.deepEqual([gate?.breaker, gate?.room], ['open', 0])
    await advance(policy.cooldown - 101)
    assert.deepEqual(await claim(store, 9), [])
    const record = await read(store, id)
    assert.deepEqual([record.state, record.attempt], ['pending', 0])
  })

  test('half-open: no more probes at a time than it says, and good ones close it', async ({
    store,
    advance,
  }) => {
    await open(store)
    await advance(policy.cooldown)
    const probes = await claim(store, 9)
    assert.equal(probes.length, policy.probes)
    assert.equal(await phase(store), 'half-open')
    assert.deepEqual(await ask(store, 9), { settled: [], claimed: [], opens: undefined })
    await settle(store, probes[0] as ClaimedJob, complete())
    assert.equal(await phase(store), 'half-open')
    const next = await claim(store, 9)
    assert.equal(next.length, 1, 'one ended, so one more')
    await settle(store, probes[1] as ClaimedJob, complete())
    assert.equal(await phase(store), 'closed')
    assert.ok((await claim(store, 9)).length > policy.probes)
  })

  test('half-open: the first failure opens it again for the whole cooldown', async ({ store, advance }) => {
    await open(store)
    await advance(policy.cooldown)
    const [probe, other] = await claim(store, 9)
    await advance(50)
    await settle(store, probe as ClaimedJob, retryIn(5))
    assert.equal(await phase(store), 'open')
    assert.deepEqual(await claim(store, 9), [])
    await settle(store, other as ClaimedJob, complete())
    assert.equal(await phase(store), 'open', 'a late good end does not close it')
    await advance(policy.cooldown - 1)
    assert.deepEqual(await claim(store, 9), [])
    await advance(1)
    assert.equal((await claim(store, 9)).length, policy.probes)
  })

  test('half-open: probes that are given back leave room for others', async ({ store, advance }) => {
    await open(store)
    await advance(policy.cooldown)
    const before = completedBefore('1', retention)
    for (const outcome of [released(), snoozed(5), { ...retryIn(5), excused: true }, stop(), before]) {
      const probes = await claim(store, 9)
      assert.equal(probes.length, policy.probes)
      for (const probe of probes) await settle(store, probe, outcome)
      assert.equal(await phase(store), 'half-open')
    }
  })

  test('half-open: a probe whose worker is lost opens it again', async (harness) => {
    const { store, advance } = harness
    await open(store)
    await advance(policy.cooldown)
    assert.equal((await claim(store, 9, { worker: 'lost' })).length, policy.probes)
    await rescueAll(harness)
    assert.equal(await phase(store), 'open')
    await advance(policy.cooldown)
    assert.equal((await claim(store, 9)).length, policy.probes)
  })

  test('runs that started before it opened say nothing about the probes', async ({ store, advance }) => {
    await prepare(store, 30)
    const early = await claim(store, 3)
    await run(store, [die(), die(), die(), die()])
    assert.equal(await phase(store), 'open')
    await settle(store, early[0] as ClaimedJob, complete())
    await settle(store, early[1] as ClaimedJob, complete())
    assert.equal(await phase(store), 'open')
    await advance(policy.cooldown)
    const probes = await claim(store, 9)
    assert.equal(probes.length, policy.probes, 'the early one is no probe')
    await settle(store, early[2] as ClaimedJob, die())
    assert.equal(await phase(store), 'half-open', 'old news')
  })

  test('opened by hand it stays open until it is closed by hand', async ({ store, advance }) => {
    await prepare(store)
    await store.configure({ job: 'greet', breaker: 'open' })
    assert.equal(await phase(store), 'open')
    await advance(policy.cooldown * 100)
    assert.deepEqual(await ask(store, 9), { settled: [], claimed: [], opens: undefined })
    await store.configure({ job: 'greet', breaker: 'closed' })
    assert.equal(await phase(store), 'closed')
    assert.equal((await claim(store, 9)).length, 9)
  })

  test('opened by hand without a policy, and before its first job', async ({ store }) => {
    await store.configure({ job: 'greet', breaker: 'open' })
    await insertMany(store, 3)
    const free = await insertOne(store, { name: 'free' })
    assert.deepEqual(
      (await claim(store, 9)).map(({ id }) => id),
      [free],
    )
    await store.configure({ job: 'greet', breaker: 'closed' })
    assert.equal((await claim(store, 9)).length, 3)
  })

  test('closed by hand it counts anew', async ({ store }) => {
    await open(store)
    await store.configure({ job: 'greet', breaker: 'closed' })
    await run(store, [die(), die(), die()])
    assert.equal(await phase(store), 'closed')
    await run(store, [die()])
    assert.equal(await phase(store), 'open')
  })

  test('a policy that is taken away takes the open breaker with it', async (harness) => {
    const { store, advance } = harness
    for (const halfOpen of [false, true]) {
      await open(store)
      if (halfOpen) {
        await advance(policy.cooldown)
        await run(store, [complete()])
        assert.equal(await phase(store), 'half-open')
      }
      await declare(store, jobGate(), { breaker: null })
      const claimed = await claim(store, 9)
      assert.ok(claimed.length > policy.probes, halfOpen ? 'half-open' : 'open')
      for (const job of claimed) await settle(store, job, complete())
      assert.equal(await phase(store), 'closed')
    }
  })

  test('a breaker holds up its own definition alone, with its keys and in all queues', async ({ store }) => {
    await open(store)
    await insertOne(store, { traffic: withKey('k') })
    await insertOne(store, { queue: 'other', traffic: gated })
    const free = await insertOne(store, { name: 'free', queue: 'other' })
    const claimed = await claim(store, 9, { queues: ['main', 'other'] })
    assert.deepEqual(
      claimed.map(({ id }) => id),
      [free],
    )
  })

  test('phases are told as they change', async ({ store, advance }) => {
    const told: string[] = []
    const unsubscribe = store.subscribe((signal) => {
      if (signal.type === 'breaker') told.push(`${signal.job} ${signal.phase}`)
    })
    await open(store)
    await advance(policy.cooldown)
    await run(store, [complete(), complete()])
    await store.configure({ job: 'greet', breaker: 'open' })
    await store.configure({ job: 'greet', breaker: 'closed' })
    unsubscribe()
    assert.deepEqual(
      told,
      ['open', 'half-open', 'closed', 'open', 'closed'].map((name) => `greet ${name}`),
    )
  })

  test('a storm of failures ends: everything is done once the cause is gone', async (harness) => {
    const { store } = harness
    await open(store)
    const left = (await store.counts()).kinds.reduce((sum, { states }) => sum + states.pending, 0)
    assert.equal((await drain(harness)).length, left)
  })
}

/** A definition with the policy and jobs enough. */
async function prepare(store: Store, jobs = 40): Promise<void> {
  await declare(store, jobGate(), { breaker: policy })
  await insertMany(store, jobs, { traffic: gated })
}

async function open(store: Store): Promise<void> {
  await prepare(store)
  await run(store, [die(), die(), die(), die()])
  assert.equal(await phase(store), 'open')
}

/** One run for each outcome, one after the other. */
async function run(store: Store, outcomes: readonly Outcome[]): Promise<void> {
  for (const outcome of outcomes) {
    const [job] = await claim(store, 1)
    assert.ok(job, 'a job starts')
    assert.equal(await settle(store, job, outcome), 'applied')
  }
}

async function phase(store: Store): Promise<BreakerPhase | undefined> {
  return (await gateOf(store, jobGate()))?.breaker
}
