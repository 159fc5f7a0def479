import type { Gate } from './gate.js'
import type { GateStore, TrafficSubject, Waiting } from './places.js'

/** Which gates a job has to pass. */
export class GateFinder<J extends Waiting<G>, G extends Gate> {
  readonly #places: GateStore<G>
  /** Gates that jobs of a queue and a definition share. */
  readonly #shared = new Map<string, Map<string, readonly G[]>>()

  constructor(places: GateStore<G>) {
    this.#places = places
  }

  /** What is remembered of gates may be old. */
  forget(): void {
    this.#shared.clear()
  }

  /** The gates that the jobs of a line share. */
  shared(queue: string, name: string): readonly G[] {
    this.#places.refresh()
    let ofQueue = this.#shared.get(queue)
    if (ofQueue === undefined) {
      ofQueue = new Map()
      this.#shared.set(queue, ofQueue)
    }
    let gates = ofQueue.get(name)
    if (gates === undefined) {
      gates = this.#findShared(queue, name)
      ofQueue.set(name, gates)
    }
    return gates
  }

  #findShared(queue: string, name: string): readonly G[] {
    const ofQueue = this.#places.findGate({ of: 'queue', name: queue })
    const ofJob = this.ofJob(name)
    const limiter = ofJob?.settings.limiter
    const ofLimiter = limiter === undefined ? undefined : this.#places.gate({ of: 'limiter', name: limiter })
    return [ofQueue?.active ? ofQueue : undefined, ofJob, ofLimiter].filter((gate) => gate !== undefined)
  }

  /** A definition's gate, if it is more than a memory of crashes. */
  ofJob(name: string): G | undefined {
    const gate = this.#places.findGate({ of: 'job', name })
    return gate?.active ? gate : undefined
  }

  /** The gates of one job's own: its group's, then its key's. The first one's turn it takes. */
  own(job: J): readonly G[] {
    job.gates ??= this.of(job.job)
    return job.gates
  }

  of({ name, queue, traffic }: TrafficSubject): readonly G[] {
    if (traffic === undefined) return none
    const { group, key } = traffic
    const gates: G[] = []
    if (group !== undefined) gates.push(this.#places.gate({ of: 'group', queue, name: group }))
    if (key !== undefined) gates.push(this.#places.gate({ of: 'key', job: name, name: key }))
    return gates
  }
}

const none: readonly never[] = []
