import type { Socket } from 'node:net'

/** One way of one connection: packets leave in the order in which they came, each when its time has come. */
export class Flow {
  readonly #to: Socket
  readonly #queue: Packet[] = []
  #timer: NodeJS.Timeout | undefined
  #delay = { ms: 0, jitter: 0 }
  #bytesPerSecond = Number.POSITIVE_INFINITY
  /** When the last packet left. */
  #free = 0
  /** Nothing comes through any more. */
  lost = false

  constructor(from: Socket, to: Socket) {
    this.#to = to
    from.on('data', (packet: Buffer) => this.#pass(packet))
    // An end that falls into a hole is not heard on the other side either.
    from.once('close', () => this.#put(0, () => to.destroySoon()))
    to.once('close', () => this.lose())
  }

  lose(): void {
    this.lost = true
    this.#queue.length = 0
    clearTimeout(this.#timer)
  }

  /** What is on its way already is as late as it was, and goes on at the new speed. */
  tune(delay: { ms: number; jitter: number }, bytesPerSecond: number): void {
    this.#delay = delay
    this.#bytesPerSecond = bytesPerSecond
    clearTimeout(this.#timer)
    this.#drain()
  }

  #pass(packet: Buffer): void {
    const piece = this.#bytesPerSecond === Number.POSITIVE_INFINITY ? packet.length : pieceBytes
    for (let start = 0; start < packet.length; start += piece) {
      const part = packet.subarray(start, start + piece)
      this.#put(part.length, () => this.#to.write(part))
    }
  }

  #put(bytes: number, send: () => void): void {
    if (this.lost) return
    const { ms, jitter } = this.#delay
    const late = Math.max(0, ms + (Math.random() * 2 - 1) * jitter)
    this.#queue.push({ due: performance.now() + late, bytes, send })
    if (this.#queue.length === 1) this.#drain()
  }

  #drain(): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      const leaves = Math.max(first.due, this.#free) + (first.bytes * 1000) / this.#bytesPerSecond
      const wait = leaves - performance.now()
      if (wait > 0) {
        this.#timer = setTimeout(() => this.#drain(), wait)
        return
      }
      this.#free = leaves
      this.#queue.shift()
      first.send()
    }
  }
}

interface Packet {
  /** Not before this time. */
  readonly due: number
  readonly bytes: number
  readonly send: () => void
}

const pieceBytes = 512
