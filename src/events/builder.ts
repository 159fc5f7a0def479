import { MillraceError } from '../core/errors.js'
import { newToken } from '../system/ids.js'
import { isNearlyDone } from './courtesy.js'
import type { Projection } from './define-projection.js'
import { dropLater } from './drop-table.js'
import { checkpointsOf, contextOf, inTransaction, positionOf, recordOf } from './generations.js'
import type { ProjectionRecord } from './log.js'
import { PartLease } from './part-lease.js'
import { type PartEnd, PartRun } from './part-run.js'
import type { CompiledRebuild } from './rebuild-options.js'
import type { EventRuntime } from './runtime.js'
import { tableOf } from './table.js'
import { Tries } from './tries.js'
import { Wakes } from './wakes.js'

interface Built {
  readonly lease: PartLease
  readonly tries: Tries
  readonly run: PartRun
  readonly ended: Promise<PartEnd>
}

/** Builds a generation under leases of its own, and swaps when it is hardly behind. */
export class Builder {
  readonly #runtime: EventRuntime
  readonly #projection: Projection
  readonly #generation: number
  readonly #options: CompiledRebuild
  readonly #owner = `rebuild-${newToken().slice(0, 12)}`
  readonly #built = new Map<number, Built>()
  readonly #wakes: Wakes
  readonly #unsubscribe: () => void
  /** Of a handler that was tried often enough. */
  #failure: { readonly error: unknown } | undefined

  constructor(runtime: EventRuntime, projection: Projection, generation: number, options: CompiledRebuild) {
    this.#runtime = runtime
    this.#projection = projection
    this.#generation = generation
    this.#options = options
    this.#wakes = new Wakes(runtime.clock)
    this.#unsubscribe = runtime.log.subscribe(() => {
      for (const { run } of this.#built.values()) run.wake()
    })
  }

  async build(): Promise<void> {
    const { signal, onProgress } = this.#options
    const wake = () => this.#wakes.wake()
    signal?.addEventListener('abort', wake)
    try {
      for (;;) {
        signal?.throwIfAborted()
        if (this.#failure !== undefined) throw this.#failure.error
        const record = await recordOf(this.#runtime, this.#projection)
        if (record.live >= this.#generation) return // another process has finished it
        if (record.building !== this.#generation) throw abandoned(record)
        await this.#takeAll(record)
        const end = await this.#runtime.log.end()
        const position = positionOf(record, this.#generation)
        onProgress?.({ generation: this.#generation, position, end })
        if (this.#isGoingWell(record) && isNearlyDone(record) && (await this.#swap(record))) return
        await this.#wakes.next(lookMs)
      }
    } finally {
      signal?.removeEventListener('abort', wake)
    }
  }

  /** All parts are here, and none has an event that stands in the way. */
  #isGoingWell({ parts }: ProjectionRecord): boolean {
    return this.#built.size === parts && [...this.#built.values()].every(({ run }) => !run.isResting)
  }

  /** Ends the work, and gives back what it has. */
  async leave(): Promise<void> {
    this.#unsubscribe()
    const { signal } = this.#options
    if (signal?.aborted) for (const { run } of this.#built.values()) run.abort(signal.reason)
    await this.#letGo()
  }

  async #letGo(): Promise<void> {
    for (const { run } of this.#built.values()) run.pause()
    for (const { lease, run, ended } of [...this.#built.values()]) {
      await ended
      await lease.release(Math.max(run.seen, lease.position)).catch((error: unknown) => this.#tell(error))
    }
    this.#built.clear()
  }

  /** Who has the first part takes the others: of several that rebuild at the same time one does. */
  async #takeAll(record: ProjectionRecord): Promise<void> {
    const parts = checkpointsOf(record, this.#generation).sort((a, b) => a.part - b.part)
    for (const { part } of parts) {
      if (this.#built.has(part)) continue
      const lease = await this.#take(this.#generation, part)
      if (lease !== undefined) this.#start(part, lease)
      else if (part === 0) return this.#letGo()
    }
  }

  #start(part: number, lease: PartLease, tries = new Tries()): void {
    const run = this.#newRun(lease, tries)
    const ended = run.run().then(async (end) => {
      if (end.end === 'lost') lease.drop()
      if (end.end === 'failed') {
        this.#failure ??= { error: end.error }
        await lease.release().catch((error: unknown) => this.#tell(error))
        this.#wakes.wake()
      }
      if (end.end !== 'paused') this.#built.delete(part)
      return end
    })
    this.#built.set(part, { lease, tries, run, ended })
  }

  #newRun(lease: PartLease, tries: Tries): PartRun {
    const options = { ...runOptions, tries: this.#options.tries }
    return new PartRun(this.#runtime, this.#projection, lease, options, tries)
  }

  /**
   * With all parts of both generations in hand nothing of the live one moves: what is missing is made up for, and
   * readers go on with the new one, which is not behind. False when that cannot be now.
   */
  async #swap(record: ProjectionRecord): Promise<boolean> {
    const live = await this.#holdLive(record)
    if (live === undefined) return false
    try {
      const built = [...this.#built.values()]
      if (!(await this.#pauseAll(built))) return false
      for (const one of built) {
        const target = live.find(({ ref }) => ref.part === one.lease.ref.part)?.position ?? 0
        // A commit whose answer was lost may have moved it.
        await one.lease.reread()
        const run = this.#newRun(one.lease, one.tries)
        const cancel = this.#runtime.clock.after(catchUpMs, () => run.abort(tooSlow()))
        await run.upTo(Math.max(target, one.run.seen)).finally(cancel)
      }
      await this.#commit(record.live, live, built)
      return true
    } catch (error) {
      this.#tell(error)
      return false
    } finally {
      await this.#goOn(live)
    }
  }

  /** All of them have ended when it resolves, whatever they were at; false when one did not end because it was paused. */
  async #pauseAll(built: readonly Built[]): Promise<boolean> {
    for (const { run } of built) run.pause()
    const cancel = this.#runtime.clock.after(catchUpMs, () => {
      for (const { run } of built) run.abort(tooSlow())
    })
    const ends = await Promise.all(built.map(({ ended }) => ended)).finally(cancel)
    return ends.every(({ end }) => end === 'paused')
  }

  async #commit(previous: number, live: readonly PartLease[], built: readonly Built[]): Promise<void> {
    const { log } = this.#runtime
    const { name, swapped } = this.#projection
    const generation = this.#generation
    await inTransaction(this.#runtime, async (tx) => {
      for (const lease of live) await lease.releaseIn(tx, lease.position)
      for (const { lease } of built) await lease.releaseIn(tx, lease.position)
      await log.rebuild({ do: 'swap', name, generation }, tx)
      await swapped?.({ ...contextOf(this.#projection, generation, tx), previous: tableOf(name, previous) })
    })
    for (const { lease } of built) lease.drop()
    this.#built.clear()
    const table = tableOf(name, generation)
    this.#runtime.listeners.emit('swapped', { projection: name, generation, table })
    dropLater(this.#runtime, this.#projection, previous, this.#options.keepOld)
  }

  /** All parts of the live generation: workers leave them for a moment when they see how far this is. */
  async #holdLive(record: ProjectionRecord): Promise<PartLease[] | undefined> {
    const { clock } = this.#runtime
    const until = clock.monotonic() + holdMs
    const held: PartLease[] = []
    const missing = checkpointsOf(record, record.live).map(({ part }) => part)
    while (missing.length > 0) {
      const lease = await this.#take(record.live, missing[0] as number)
      if (lease !== undefined) {
        held.push(lease)
        missing.shift()
        continue
      }
      if (clock.monotonic() > until || this.#options.signal?.aborted) {
        for (const one of held) await one.release()
        return undefined
      }
      await this.#wakes.next(holdPauseMs)
    }
    return held
  }

  /** After a swap there is nothing to go on with, and the live parts are gone. */
  async #goOn(live: readonly PartLease[]): Promise<void> {
    for (const lease of live) await lease.release().catch((error: unknown) => this.#tell(error))
    for (const [part, { lease, tries, ended }] of [...this.#built]) {
      // Two runs under one lease would both be let through.
      await ended
      if (!this.#built.delete(part)) continue
      try {
        await lease.reread()
        this.#start(part, lease, tries)
      } catch (error) {
        lease.drop()
        this.#tell(error)
      }
    }
  }

  #take(generation: number, part: number): Promise<PartLease | undefined> {
    const { name } = this.#projection
    return PartLease.take(this.#runtime, { name, generation, part }, this.#owner, this.#options.lease)
  }

  #tell(error: unknown): void {
    const { name } = this.#projection
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
    this.#runtime.listeners.emit('error', {
      error: cause,
      during: `rebuild of projection '${name}'`,
      projection: name,
    })
  }
}

const lookMs = 100
/** How long it waits for workers to leave the live generation, and how often it asks. */
const holdMs = 3_000
const holdPauseMs = 20
/** How long the live generation may stand still. */
const catchUpMs = 5_000
const runOptions = { batch: 1_000, poll: 100 }

function abandoned({ name }: ProjectionRecord): MillraceError {
  return new MillraceError('LEASE_LOST', `the rebuild of projection '${name}' was abandoned`, {
    field: 'projection',
    value: name,
  })
}

function tooSlow(): MillraceError {
  return new MillraceError(
    'WAIT_TIMEOUT',
    `the rebuild did not catch up within ${catchUpMs} ms while the live generation stood still; it goes on and tries again`,
    { limit: catchUpMs },
  )
}
