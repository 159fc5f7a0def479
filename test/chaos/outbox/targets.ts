/** Where a relay's rows go. Both write each row into one file, so that it has all of them in the order in which they left. */
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { type Millrace, MillraceError } from 'millrace'
import type { JobTarget, Kind, Message, Publisher, PublishResult } from 'millrace/outbox'
import type { Doom } from '../fail-points.js'
import type { Journal } from '../journal.js'
import type { NewJob } from './contract.js'
import type { OutboxFailPoint } from './fail-points.js'
import type { Delivery, OutboxEvent } from './history.js'
import { isPoison } from './orders.js'

export interface Surroundings {
  readonly name: string
  readonly file: string
  readonly journal: Journal<OutboxEvent>
  readonly doom: Doom<OutboxFailPoint>
  /** Between two messages. */
  readonly slowMs: number
  /** Goes on with a batch that nobody waits for any more, as what is on its way to a broker does. */
  readonly isDeaf: boolean
}

class DeliveryLog {
  readonly #fd: number
  readonly #by: string
  #batches = 0

  constructor({ file, name }: Surroundings) {
    this.#fd = openSync(file, 'a')
    this.#by = name
  }

  newBatch(): string {
    return `${this.#by}/${++this.#batches}`
  }

  /** Short enough that the lines of several processes do not mix. */
  write(kind: Kind, id: string, batch: string): void {
    const line: Delivery = { kind, id, by: this.#by, batch }
    writeSync(this.#fd, `${JSON.stringify(line)}\n`)
  }
}

/** A broker of one file. */
export class FilePublisher implements Publisher {
  readonly name = 'file'
  readonly #log: DeliveryLog
  readonly #around: Surroundings

  constructor(around: Surroundings) {
    this.#around = around
    this.#log = new DeliveryLog(around)
  }

  async publish(messages: readonly Message[], signal: AbortSignal): Promise<PublishResult[]> {
    const { doom, slowMs, isDeaf } = this.#around
    const batch = this.#log.newBatch()
    const stuck = new Set<string>()
    const results: PublishResult[] = []
    for (const message of messages) {
      if (signal.aborted && !isDeaf) throw signal.reason
      results.push(this.#take(message, batch, stuck))
      doom.at('delivering')
      await (slowMs > 0 ? sleep(slowMs) : turn())
    }
    return results
  }

  #take({ id, key }: Message, batch: string, stuck: Set<string>): PublishResult {
    if (key !== undefined && stuck.has(key)) return { status: 'failed', error: new Error('chaos: behind it') }
    if (isPoison('message', id)) {
      if (key !== undefined) stuck.add(key)
      return { status: 'refused', error: new Error('chaos: leads nowhere') }
    }
    this.#log.write('message', id, batch)
    return 'published'
  }
}

/** Writes down what the Millrace is about to be given, which may not come so far. */
export function recordingTarget(mill: Millrace, around: Surroundings): JobTarget {
  const log = new DeliveryLog(around)
  const { doom, journal } = around
  return {
    async insert(jobs: readonly NewJob[]) {
      if (jobs.some(({ id }) => isPoison('job', id)))
        throw new MillraceError('INVALID_INPUT', 'chaos: no Millrace takes this')
      const batch = log.newBatch()
      for (const { id } of jobs) log.write('job', id, batch)
      doom.at('delivering')
      const results = await mill.insert(jobs)
      journal.write({ e: 'inserted', count: jobs.length })
      doom.at('delivering')
      return results
    },
  }
}
