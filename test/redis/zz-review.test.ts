import { defineJob, Millrace } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { ExchangeResult, Store } from '../../src/core/store.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import { Shard } from '../../src/stores/redis/shard.js'
import { Line } from '../../src/stores/redis/line.js'
import {
  claim, claimRequest, complete, idsOf, insertMany, insertOne, newJob, nextSignal, retention, settle, stateOf, statesOf,
} from '../../src/testing/conformance/helpers.js'
import { freshPrefix, open, serverUrl } from './redis.js'
import { makeScript } from '../../src/stores/redis/script.js'
async function settled(prefix: string) { const c = await open({ prefix, url: serverUrl() }); await c.run(makeScript('zz', "return redis.call('DEL', KEYS[1] .. ':newcomers')"), []) }

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms))

async function stores(n: number): Promise<Store[]> {
  const prefix = freshPrefix()
  const all: Store[] = []
  for (let i = 0; i < n; i++) {
    const store = new RedisStore({ url: serverUrl(), prefix, warn: false })
    onTestFinished(() => store.close())
    await store.open()
    all.push(store)
    if (i === 0) {
      const id = await insertOne(store)
      const [job] = await claim(store, 1)
      await settle(store, job as ClaimedJob, complete(undefined, { ...retention, completed: 0 }))
    }
  }
  await settled(prefix)
  return all
}
async function waitAs(store: Store, worker: string, room = 10) {
  await store.extend({ worker, lease: 10_000, held: [], inventory: { leaving: [], claiming: [] } })
  const r = await store.exchange({ worker, settlements: [], claim: { ...claimRequest(room), lasting: true } })
  expect(r.claimed).toEqual([])
}
function taken(store: Store, worker: string, room = 10): Promise<ExchangeResult> {
  return new Promise((resolve) => {
    const stop = store.subscribe(({ type }) => {
      if (type !== 'arriving') return
      stop()
      resolve(store.exchange({ worker, settlements: [], claim: { ...claimRequest(room), lasting: true } }))
    })
  })
}

for (const gap of [0, 200])
test(`T1 second job while first runs, gap ${gap}`, async () => {
  const prefix = freshPrefix()
  const started: number[] = []
  const t: number[] = []
  const work = defineJob<{ n: number }>({ name: 'work', run: async () => { started.push(performance.now()); await sleep(3000) } })
  const make = () => { const m = new Millrace({ store: new RedisStore({ url: serverUrl(), prefix, warn: false }), jobs: [work] }); onTestFinished(() => m.close()); return m }
  const a = make(), b = make()
  const warm = defineJob({ name: 'warm', run: async () => {} })
  const worker = b.worker({ concurrency: 10, poll: '10s' })
  await worker.start()
  await a.stats()
  await a.enqueue(work, { n: -1 })
  await sleep(3500); started.length = 0; await settled(prefix)

  const ps = []
  for (let n = 0; n < 6; n++) { t.push(performance.now()); const p = a.enqueue(work, { n }); if (gap) await p; ps.push(p); if (gap) await sleep(gap) }
  await Promise.all(ps)
  await expect.poll(() => started.length, { timeout: 20000 }).toBe(6)
  console.log('T1 gap', gap, 'latencies', started.map((s, i) => Math.round(s - (t[i] as number))))
  await worker.stop()
}, 40000)

test('T2 an insert with runAt in the past that is given to another makes its own process deaf', async () => {
  const [a, b, c] = (await stores(3)) as [Store, Store, Store]
  // b is the one that is popped at random among a and b: only b has an offer, a is SREMd
  await waitAs(b, 'wb')
  await waitAs(a, 'wa')
  await waitAs(a, 'wa') // answered by quiet
  const taking = taken(b, 'wb')
  const id = await insertOne(a, { runAt: 1000 })
  const got = await taking
  expect(idsOf(got.claimed)).toEqual([id])
  let ready = 0
  a.subscribe(({ type }) => { if (type === 'ready') ready++ })
  const id2 = await insertOne(c)
  await sleep(500)
  console.log('T2 state', await stateOf(c, id2), 'ready at a', ready, 'a claims', idsOf((await a.exchange({ worker: 'wa', settlements: [], claim: claimRequest(10) })).claimed))
})

test('T3 retract from a living process', async () => {
  const [a, b] = (await stores(2)) as [Store, Store]
  await waitAs(b, 'wb')
  // the next BLPOPs are delayed by 600 ms
  const { ask } = Line.prototype
  Line.prototype.ask = async function (this: Line, commands, left) {
    if (commands[0]?.[0] === 'BLPOP') await sleep(600)
    return ask.call(this, commands, left)
  }
  onTestFinished(() => { Line.prototype.ask = ask })
  await sleep(10_200)
  await waitAs(b, 'wb')
  let heard = 0
  b.subscribe(({ type }) => { if (type === 'ready' || type === 'arriving' || type === 'changed') heard++ })
  const id = await insertOne(a)
  await sleep(2500)
  console.log('T3 state', await stateOf(a, id), 'heard', heard, 'b claims', idsOf((await b.exchange({ worker: 'wb', settlements: [], claim: claimRequest(10) })).claimed))
}, 30000)

test('T4 close', async () => {
  const [a, b] = (await stores(2)) as [Store, Store]
  await waitAs(b, 'wb')
  const { run } = Shard.prototype
  let listenDone: () => void
  const done = new Promise<void>((r) => { listenDone = r })
  let id = ''
  Shard.prototype.run = async function (this: Shard, ...args) {
    if (args[0] === scripts.listen && args[1][1] === 0) {
      id = await insertOne(a)
      const r = await run.apply(this, args)
      listenDone()
      return r
    }
    if (args[0] === scripts.retract) { await done }
    return run.apply(this, args)
  }
  onTestFinished(() => { Shard.prototype.run = run })
  await b.close()
  await sleep(300)
  console.log('T4', await stateOf(a, id), await statesOf(a))
})

test('T4b close with nothing delayed, many times', async () => {
  let lost = 0
  const n = 40
  for (let i = 0; i < n; i++) {
    const [a, b] = (await stores(2)) as [Store, Store]
    await waitAs(b, 'wb')
    const closing = b.close()
    const id = await insertOne(a)
    await closing
    await sleep(20)
    if ((await stateOf(a, id)) === 'running') lost++
  }
  console.log('T4b stuck running', lost, 'of', n)
}, 60000)

test('T5 gift and a settlement that fails', async () => {
  const [a, b] = (await stores(2)) as [Store, Store]
  const first = await insertOne(b)
  const [job] = await claim(b, 1, { worker: 'wb' })
  await waitAs(b, 'wb')
  const readyP = nextSignal(b, ({ type }) => type === 'ready')
  const id = await insertOne(a)
  await readyP
  const { run } = Shard.prototype
  let n = 0
  Shard.prototype.run = async function (this: Shard, ...args) {
    if (args[0] === scripts.exchange && ++n === 1) throw new Error('no')
    return run.apply(this, args)
  }
  onTestFinished(() => { Shard.prototype.run = run })
  const request = { worker: 'wb', settlements: [{ id: first, token: (job as ClaimedJob).token, outcome: complete(), inserts: undefined }], claim: claimRequest(9) }
  await b.exchange(request).catch((e) => console.log('T5 failed', e.message))
  const again = await b.exchange(request)
  await sleep(1500)
  console.log('T5 again', again.settled, idsOf(again.claimed), await stateOf(a, id))
})

test('T6 own given, answer lost, quiet', async () => {
  const [a] = (await stores(1)) as [Store]
  await waitAs(a, 'w2')
  const { run } = Shard.prototype
  let n = 0
  Shard.prototype.run = async function (this: Shard, ...args) {
    if (args[0] === scripts.insert && ++n === 1) {
      await run.apply(this, args)
      // meanwhile another worker of the process asks
      await a.exchange({ worker: 'w2', settlements: [], claim: { ...claimRequest(10), lasting: true } })
    }
    return run.apply(this, args)
  }
  onTestFinished(() => { Shard.prototype.run = run })
  const taking = taken(a, 'w1')
  const id = await insertOne(a)
  console.log('T6 claimed', idsOf((await taking).claimed), await stateOf(a, id))
})

test('T7 two workers here, given to another', async () => {
  const [a, b, c] = (await stores(3)) as [Store, Store, Store]
  await waitAs(b, 'wb', 100)
  const t1 = taken(a, 'w1'), t2 = taken(a, 'w2')
  const tb = taken(b, 'wb', 100)
  const ids = await insertMany(a, 12)
  console.log('T7', (await t1).claimed.length, (await t2).claimed.length, (await tb).claimed.length)
  let ready = 0
  a.subscribe(({ type }) => { if (type === 'ready') ready++ })
  const id2 = await insertOne(c)
  await sleep(500)
  console.log('T7 state', await stateOf(c, id2), 'ready at a', ready, 'a claims', idsOf((await a.exchange({ worker: 'w1', settlements: [], claim: claimRequest(10) })).claimed))
})
