/** Short names for what tests of limits, groups, breakers and limiters do. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import type { ExchangeResult, GateRecord, Store } from '../../core/store.js'
import type { Rate } from '../../core/traffic/rate.js'
import { type GateRef, type JobTraffic, ownerOf, type TrafficChange } from '../../core/traffic/settings.js'
import type { StoreHarness } from './harness.js'
import { claim, claimRequest, complete, idsOf, lease, rescue, sweep } from './helpers.js'

export const queueGate = (name = 'main'): GateRef => ({ of: 'queue', name })
export const jobGate = (name = 'greet'): GateRef => ({ of: 'job', name })
export const groupGate = (name: string, queue = 'main'): GateRef => ({ of: 'group', queue, name })
export const keyGate = (name: string, job = 'greet'): GateRef => ({ of: 'key', job, name })
export const limiterGate = (name = 'api'): GateRef => ({ of: 'limiter', name })

export const inGroup = (group: string): JobTraffic => ({ gated: false, group, key: undefined })
export const withKey = (key: string): JobTraffic => ({ gated: true, group: undefined, key })
export const withBoth = (group: string, key: string): JobTraffic => ({ gated: true, group, key })
/** Of a definition whose code declares limits. */
export const gated: JobTraffic = { gated: true, group: undefined, key: undefined }

/** Nothing is spread unless a burst is given. */
export function rate(max: number, per: number, burst = max): Rate {
  return { max, per, burst }
}

export function choose(store: Store, gate: GateRef, change: TrafficChange): Promise<void> {
  return store.configure({ gate, change, declared: false })
}

export function declare(store: Store, gate: GateRef, change: TrafficChange): Promise<void> {
  return store.configure({ gate, change, declared: true })
}

/** The four kinds of limit, each with a job that it governs and how it is set. */
export interface Limited {
  readonly what: string
  readonly gate: GateRef
  readonly job: { readonly traffic: JobTraffic | undefined }
  /** Sets the limit for this one alone. */
  readonly on: GateRef
  readonly as: (limit: NonNullable<TrafficChange['limit']>) => TrafficChange
}

const alone: Limited['as'] = (limit) => ({ limit })
const each: Limited['as'] = (limit) => ({ each: limit })

export const allLimited: readonly Limited[] = [
  { what: 'a queue', gate: queueGate(), job: { traffic: undefined }, on: queueGate(), as: alone },
  { what: 'a definition', gate: jobGate(), job: { traffic: gated }, on: jobGate(), as: alone },
  {
    what: 'a definition that declared nothing',
    gate: jobGate(),
    job: { traffic: undefined },
    on: jobGate(),
    as: alone,
  },
  { what: 'each key', gate: keyGate('k'), job: { traffic: withKey('k') }, on: jobGate(), as: each },
  { what: 'one key', gate: keyGate('k'), job: { traffic: withKey('k') }, on: keyGate('k'), as: alone },
  { what: 'each group', gate: groupGate('g'), job: { traffic: inGroup('g') }, on: queueGate(), as: each },
  { what: 'one group', gate: groupGate('g'), job: { traffic: inGroup('g') }, on: groupGate('g'), as: alone },
]

export function setLimit(
  store: Store,
  { on, as }: Limited,
  limit: NonNullable<TrafficChange['limit']>,
): Promise<void> {
  return choose(store, on, as(limit))
}

/** A claim with all that it answers. */
export function ask(
  store: Store,
  count: number,
  worker = 'worker',
  queues = ['main'],
): Promise<ExchangeResult> {
  return store.exchange({ worker, settlements: [], claim: claimRequest(count, queues) })
}

export async function gateOf(store: Store, ref: GateRef): Promise<GateRecord | undefined> {
  const owner = ownerOf(ref)
  const query = { of: ref.of, names: [ref.name], limit: 10, ...(owner === '' ? {} : { owner }) }
  const { gates } = await store.gates(query)
  assert.ok(gates.length <= 1, `${JSON.stringify(ref)} is listed once`)
  return gates[0]
}

/** Reads page after page. */
export async function allGates(
  store: Store,
  of: GateRef['of'],
  owner?: string,
  limit = 100,
): Promise<GateRecord[]> {
  const found: GateRecord[] = []
  let cursor: string | undefined
  for (let page = 0; page < 1000; page++) {
    const { gates, cursor: next } = await store.gates({ of, owner, limit, cursor })
    assert.ok(gates.length <= limit, 'a page holds no more than its limit')
    found.push(...gates)
    cursor = next
    if (cursor === undefined) return found
  }
  throw new Error('the pages of gates() do not end')
}

export async function completeAll(
  store: Store,
  jobs: readonly ClaimedJob[],
  worker = 'worker',
): Promise<void> {
  const settlements = jobs.map(({ id, token }) => ({ id, token, outcome: complete(), inserts: undefined }))
  const { settled } = await store.exchange({ worker, settlements, claim: undefined })
  assert.ok(settled.every((result) => result === 'applied'))
}

/** Claims and completes until nothing is left, moving on to when the store says that there will be more. */
export async function drain(
  { store, advance }: StoreHarness,
  queues = ['main'],
  most = 1000,
): Promise<string[]> {
  const done: string[] = []
  for (let i = 0; i < most; i++) {
    const { claimed, opens } = await ask(store, 100, 'worker', queues)
    if (claimed.length === 0 && opens === undefined) return done
    done.push(...idsOf(claimed))
    await completeAll(store, claimed)
    if (claimed.length === 0) await advance(opens ?? 0)
  }
  throw new Error(`not drained after ${most} claims`)
}

/** Lets the workers' leases run out and rescues what they held; returns how many jobs that were. */
export async function rescueAll({ store, advance }: StoreHarness): Promise<number> {
  await advance(lease)
  const { orphans } = await sweep(store)
  for (const orphan of orphans) assert.equal(await rescue(store, orphan), 'applied')
  return orphans.length
}

/** Claims `count` and settles each with complete, so that nothing keeps running; returns how many there were. */
export async function startAndComplete(store: Store, count: number, worker = 'worker'): Promise<number> {
  return (await completeNext(store, count, worker)).length
}

/** The same; returns their ids. */
export async function completeNext(store: Store, count: number, worker = 'worker'): Promise<string[]> {
  const claimed = await claim(store, count, { worker })
  await completeAll(store, claimed, worker)
  return idsOf(claimed)
}
