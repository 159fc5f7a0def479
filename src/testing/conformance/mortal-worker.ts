/** A worker in virtual time that is killed between any two calls of its store, and replaced. */
import type { AnyJob, JobDefinition } from '../../core/definition.js'
import type { Store } from '../../core/store.js'
import { Millrace } from '../../millrace.js'
import { VirtualClock } from '../virtual-clock.js'
import type { StoreHarness } from './harness.js'
import { timeOf } from './helpers.js'
import { MortalStore } from './mortal-store.js'

const options = { lease: '1s', poll: '200ms', concurrency: 3, handleSignals: false } as const
const mostRounds = 100

/** The first one is enqueued. */
export type Jobs = readonly [AnyJob, ...AnyJob[]]

export class MortalWorker {
  readonly store: Store
  /** The store's clock. */
  now = 0
  readonly #harness: StoreHarness
  readonly #clock = new VirtualClock()
  readonly #makeJobs: (process: MortalStore) => Jobs
  #process: MortalStore
  #stop: () => Promise<void> = async () => {}

  /** `makeJobs` makes the definitions for one process; their handlers must do nothing once that is dead. */
  constructor(harness: StoreHarness, makeJobs: (process: MortalStore) => Jobs) {
    this.#harness = harness
    this.store = harness.store
    this.#makeJobs = makeJobs
    this.#process = new MortalStore(harness.store)
  }

  async start(): Promise<void> {
    this.now = await timeOf(this.store)
    await this.#replace()
  }

  async stop(): Promise<void> {
    const stopped = this.#stop()
    await this.advance(0)
    await stopped
  }

  /** After so many calls of its store, or soon. Another takes its place. */
  async kill(calls: number, dieAfter: boolean): Promise<void> {
    this.#process.kill(calls, dieAfter)
    await this.advance(50)
    // One that has made fewer calls is killed as it is.
    this.#process.kill(0, false)
    await this.advance(300)
    await this.#replace()
  }

  async enqueue<I, O, R>(input: I, id: string): Promise<void> {
    const mill = new Millrace({ store: this.store, clock: this.#clock })
    const [job] = this.#makeJobs(this.#process)
    await mill.enqueue(job as JobDefinition<I, O, R>, input, { id })
    await this.advance(0)
  }

  /** Moves the store's clock and that of the worker. */
  async advance(ms: number): Promise<void> {
    await this.#harness.advance(ms)
    this.now += ms
    await this.#clock.advance(ms)
    await this.#process.quiet()
  }

  /** Until none of these jobs is live; says which ones are stuck. */
  async untilEnded(ids: readonly string[], meanwhile: () => Promise<void>): Promise<void> {
    for (let round = 0; ; round++) {
      const records = await this.store.get(ids)
      const left = records.filter((job) => !['completed', 'dead', 'cancelled'].includes(job?.state ?? ''))
      if (left.length === 0) return
      if (round === mostRounds)
        throw new Error(`stuck: ${left.map((job) => `${job?.id} ${job?.state}`).join(', ')}`)
      await meanwhile()
      await this.advance(1_000)
    }
  }

  async #replace(): Promise<void> {
    const process = new MortalStore(this.store)
    this.#process = process
    const mill = new Millrace({
      store: process.store,
      clock: this.#clock,
      random: () => 0.5,
      jobs: this.#makeJobs(process),
    })
    mill.on('error', () => {})
    const worker = mill.worker(options)
    void worker.start()
    this.#stop = () => (process.dead ? Promise.resolve() : worker.stop({ grace: 0 }))
    await this.advance(0)
  }
}
