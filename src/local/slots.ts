import PQueue, { type Queue, type QueueAddOptions } from 'p-queue'
import type { Entry } from './entry.js'
import type { Line } from './line.js'

interface AddOptions<Item, Result> extends QueueAddOptions {
  readonly entry: Entry<Item, Result>
}

type Start = () => Promise<unknown>

/** p-queue decides when a slot is free; which entry gets it is the line's to say. */
export class Slots<Item, Result> {
  readonly #queue: PQueue<Queue<Start, AddOptions<Item, Result>>, AddOptions<Item, Result>>

  constructor(concurrency: number, line: Line<Entry<Item, Result>>) {
    this.#queue = new PQueue({ concurrency, queueClass: sourceOf(line) })
  }

  /** Puts the entry in line, and starts it at once if a slot is free. `run` must not reject. */
  add(entry: Entry<Item, Result>, run: () => Promise<void>): void {
    void this.#queue.add(run, { entry })
  }

  pause(): void {
    this.#queue.pause()
  }

  start(): void {
    this.#queue.start()
  }
}

/** p-queue makes its own instance of this class, and all that it does goes to our line. */
function sourceOf<Item, Result>(line: Line<Entry<Item, Result>>) {
  return class Source implements Queue<Start, AddOptions<Item, Result>> {
    get size(): number {
      return line.size
    }

    enqueue(start: Start, options?: Partial<AddOptions<Item, Result>>): void {
      const entry = options?.entry as Entry<Item, Result>
      entry.start = start
      line.add(entry)
    }

    dequeue(): Start | undefined {
      return line.take()?.start
    }

    filter(): Start[] {
      return Array.from(line.fromLeastUrgent(), (entry) => entry.start as Start)
    }

    /** Never called: an entry's priority is final. */
    setPriority(): void {}
  }
}
