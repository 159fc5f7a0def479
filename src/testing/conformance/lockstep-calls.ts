/** Every verb called on all stores of a lockstep run, and the answers compared. */
import assert from 'node:assert/strict'
import { crashed } from '../../core/lifecycle.js'
import type { ExchangeResult, OrphanedJob, Store, SweepReport } from '../../core/store.js'
import { idsOf, lostWorker, operateAll, sorted, sweep } from './helpers.js'
import { type LockstepRequests, settlementsFor } from './lockstep-requests.js'
import { type LockstepVerb, lease } from './lockstep-steps.js'
import { limiter } from './traffic-parts.js'

/** One process: its handle on each store, and the worker that lives in it. */
export interface Process {
  readonly stores: readonly Store[]
  readonly worker: string
}

type Verb<Name extends LockstepVerb['verb']> = Extract<LockstepVerb, { verb: Name }>

export const forever = 1_000_000_000

export class LockstepCalls {
  readonly #requests: LockstepRequests
  /** As each store named them in the last sweep. */
  #orphans: readonly (readonly OrphanedJob[])[] = []

  constructor(requests: LockstepRequests) {
    this.#requests = requests
  }

  /** Calls the stores before it waits for anything, so that verbs of one turn keep their order. */
  call(process: Process, verb: LockstepVerb): Promise<unknown> {
    const { stores } = process
    switch (verb.verb) {
      case 'insert': {
        const jobs = verb.jobs.map((job) => this.#requests.job(job))
        return same(stores.map((store) => store.insert(jobs)))
      }
      case 'exchange':
        return this.exchange(process, verb)
      case 'extend':
        return this.#extend(process)
      case 'sweep':
        return this.sweep(process)
      case 'rescue':
        return this.#rescue(process, verb.vanish)
      case 'operate on ids': {
        const ids = verb.ids.map((back) => this.#requests.idAt(back))
        return same(stores.map((store) => store.operate({ ids }, verb.command)))
      }
      case 'operate':
        return this.#operate(process, verb)
      case 'configure': {
        const { gate, change, declared } = verb
        return same(stores.map((store) => store.configure({ gate, change, declared })))
      }
      case 'pause': {
        const { queue, paused } = verb
        return same(stores.map((store) => store.configure({ queue, paused })))
      }
      case 'breaker':
        return same(stores.map((store) => store.configure({ job: verb.job, breaker: verb.to })))
      case 'release':
        return same(stores.map((store) => store.configure({ gate: verb.gate, release: true })))
      case 'acquire': {
        const { permits, waiter } = verb
        return same(stores.map((store) => store.acquire({ limiter, permits, waiter })))
      }
    }
  }

  async exchange({ stores, worker }: Process, step: Verb<'exchange'>): Promise<ExchangeResult> {
    const settlings = this.#requests.settlings(worker, step.settlements)
    const claim = step.claim && this.#requests.claim(worker, step.claim)
    const results = await Promise.all(
      stores.map((store, i) => store.exchange({ worker, settlements: settlementsFor(i, settlings), claim })),
    )
    const claimed = results.map((result) => result.claimed)
    allAlike(results.map((result, i) => ({ ...result, claimed: withoutTokens(claimed[i] ?? []) })))
    const first = results[0] as ExchangeResult
    this.#requests.settled(settlings, first.settled)
    this.#requests.given(worker, claimed)
    // Whether a claim that finds nothing renews the lease is left open.
    if (claim !== undefined && first.claimed.length === 0)
      await same(stores.map((store) => store.extend({ worker, lease, held: [] })))
    return first
  }

  #extend({ stores, worker }: Process): Promise<unknown> {
    const given = this.#requests.heldBy(worker)
    return same(
      stores.map((store, i) => {
        const held = given.map(({ id, tokens }) => {
          return { id, token: tokens[i] as string, progress: '"half"', logs: undefined }
        })
        return store.extend({ worker, lease, held })
      }),
    )
  }

  async sweep({ stores }: Process): Promise<SweepReport> {
    const reports = await Promise.all(stores.map((store) => sweep(store)))
    this.#orphans = reports.map(({ orphans }) => [...orphans].sort((a, b) => (a.id < b.id ? -1 : 1)))
    allAlike(reports.map((report, i) => ({ ...report, orphans: withoutTokens(this.#orphans[i] ?? []) })))
    return reports[0] as SweepReport
  }

  async #rescue({ stores }: Process, vanish: boolean): Promise<void> {
    const retain = vanish ? 0 : forever
    const orphans = this.#orphans
    for (const worker of new Set(orphans[0]?.map((orphan) => orphan.worker))) {
      const answers = stores.map((store, i) => {
        const lost = orphans[i]?.filter((orphan) => orphan.worker === worker) ?? []
        const settlements = lost.map((orphan) => {
          const outcome = crashed(orphan, lostWorker(orphan.name), { completed: retain, dead: retain })
          return { id: orphan.id, token: orphan.token, outcome, inserts: undefined }
        })
        return store.exchange({ worker, settlements, claim: undefined, rescue: true })
      })
      await same(answers)
    }
    this.#requests.rescued(idsOf(orphans[0] ?? []))
  }

  /** In which order a filter finds jobs is left open. */
  async #operate({ stores }: Process, { state, queue, command }: Verb<'operate'>): Promise<void> {
    const filter = { state, queue }
    const reports = await Promise.all(stores.map((store) => operateAll(store, filter, command)))
    allAlike(
      reports.map(({ affected, asked, refused }) => ({
        affected: sorted(affected),
        asked: sorted(asked),
        refused: sorted(refused),
      })),
    )
  }
}

export async function same<T>(answers: readonly Promise<T>[]): Promise<T> {
  const seen = await Promise.all(answers)
  allAlike(seen)
  return seen[0] as T
}

/** The first is the reference, if there is one. */
export function allAlike(seen: readonly unknown[]): void {
  for (const one of seen.slice(1)) assert.deepEqual(one, seen[0])
}

function withoutTokens(jobs: readonly { readonly token: string }[]): unknown[] {
  return jobs.map(({ token, ...job }) => job)
}
