/** What a store shows, in an order of its own, and whether it is true of the jobs there are. */
import assert from 'node:assert/strict'
import { type JobRecord, type JobState, jobStates } from '../../core/job.js'
import type { GateRecord, KindCounts, Store } from '../../core/store.js'
import { type GateRef, ownerOf } from '../../core/traffic/settings.js'
import { idsOf, listAll, plain, sorted } from './helpers.js'
import { kindKey, nonZero } from './model-world.js'
import { viewOfRecord } from './record-view.js'
import { allGates } from './traffic-helpers.js'
import { nameOf } from './traffic-oracle.js'

export interface StoreView {
  readonly records: readonly (JobRecord | undefined)[]
  readonly kinds: readonly KindCounts[]
  readonly paused: readonly string[]
  readonly gates: readonly GateRecord[]
}

const scopes: readonly GateRef['of'][] = ['queue', 'job', 'group', 'key', 'limiter']

export async function look(store: Store, ids: readonly string[]): Promise<StoreView> {
  const { kinds, paused } = await store.counts()
  const gates = (await Promise.all(scopes.map((of) => allGates(store, of)))).flat()
  return {
    records: await store.get(ids),
    kinds: [...kinds].sort(by(kindKey)),
    paused: sorted(paused),
    gates: [...gates].sort(by(({ ref }) => nameOf(ref))),
  }
}

/** What must be the same in another store. */
export function shown({ records, kinds, paused, gates }: StoreView): unknown {
  return {
    records: records.map((record) => record && viewOfRecord(record)),
    // Whether a kind that has counted nothing is listed is left open.
    kinds: kinds
      .map((kind) => ({ kind: kindKey(kind), states: nonZero(kind.states), totals: nonZero(kind.totals) }))
      .filter(({ states, totals }) => Object.keys({ ...states, ...totals }).length > 0),
    paused,
    // Settings that were given with a prototype of their own are kept as they are, or not.
    gates: structuredClone(gates),
  }
}

/** Counts are those of the jobs, by kind and by gate. */
export function checkCounts({ records, kinds, gates }: StoreView): void {
  const jobs = records.filter((record) => record !== undefined)
  for (const { states, ...kind } of kinds) {
    const own = jobs.filter((job) => kindKey(job) === kindKey(kind))
    for (const state of jobStates)
      assert.equal(states[state], countOf(own, state), `${state} jobs of ${kindKey(kind)}`)
  }
  const counted = new Set(kinds.map(kindKey))
  for (const job of jobs) assert.ok(counted.has(kindKey(job)), `${kindKey(job)} is counted`)
  for (const gate of gates) checkGate(gate, jobs)
  const listed = new Set(gates.map(({ ref }) => nameOf(ref)))
  for (const job of jobs.filter(({ state }) => state === 'pending' || state === 'running'))
    for (const ref of ownGates(job)) assert.ok(listed.has(nameOf(ref)), `${nameOf(ref)} is listed`)
}

function checkGate({ ref, pending, running }: GateRecord, jobs: readonly JobRecord[]): void {
  if (ref.of === 'limiter') return
  const own = jobs.filter((job) => passes(job, ref))
  const waiting = ownerOf(ref) === '' ? 0 : countOf(own, 'pending')
  assert.deepEqual(
    { pending, running },
    { pending: waiting, running: countOf(own, 'running') },
    `gate ${nameOf(ref)}`,
  )
}

function passes(job: JobRecord, ref: GateRef): boolean {
  const refs: GateRef[] = [{ of: 'queue', name: job.queue }, { of: 'job', name: job.name }, ...ownGates(job)]
  return refs.some((one) => nameOf(one) === nameOf(ref))
}

function ownGates({ name, queue, group, key }: JobRecord): GateRef[] {
  return [
    ...(group === undefined ? [] : [{ of: 'group' as const, queue, name: group }]),
    ...(key === undefined ? [] : [{ of: 'key' as const, job: name, name: key }]),
  ]
}

/** Every job is listed once, in the state that it is in. */
export async function checkLists(store: Store, { records }: StoreView): Promise<void> {
  for (const state of jobStates) {
    const listed = await listAll(store, { state }, 7)
    const expected = records.filter((record) => record?.state === state) as JobRecord[]
    assert.deepEqual(sorted(idsOf(listed)), sorted(idsOf(expected)), `list of ${state} jobs`)
  }
}

export async function trailsOf(store: Store, ids: readonly string[]): Promise<unknown> {
  const trails = await Promise.all(ids.map((id) => store.trail(id)))
  return trails.map(
    (trail) =>
      trail && { ...trail, attempts: trail.attempts.map((one) => ({ ...one, failure: plain(one.failure) })) },
  )
}

function countOf(jobs: readonly JobRecord[], state: JobState): number {
  return jobs.filter((job) => job.state === state).length
}

function by<T>(text: (item: T) => string): (a: T, b: T) => number {
  return (a, b) => (text(a) < text(b) ? -1 : 1)
}
