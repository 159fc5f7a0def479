/**
 * One connection, from its beginning to its end. What is asked is answered, or rejected when the connection is lost: by
 * itself, or because the server has said nothing for too long. Nobody waits for a half-open one.
 */
import { type RedisClient, sever, socketOf } from './driver.js'
import { ConnectionEnded, closed, connectError, isReply, NoAnswer } from './errors.js'
import type { Timeouts } from './options.js'

export type Command = readonly [name: string, ...args: (string | number)[]]

interface Call {
  readonly asked: number
  readonly left: number
  readonly reject: (error: unknown) => void
  timer?: NodeJS.Timeout
}

/** Severed when `closing` is aborted, at whatever point it is then. */
export async function openLine(client: RedisClient, timeouts: Timeouts, closing: AbortSignal): Promise<Line> {
  const line = new Line(client, timeouts.answer, closing)
  await line.connect(timeouts.connect)
  return line
}

export class Line {
  readonly #client: RedisClient
  readonly #silence: number
  readonly #closing: AbortSignal
  readonly #close = () => this.sever(closed())
  readonly #calls = new Set<Call>()
  /** What the driver last complained about. */
  #complaint: unknown
  #lostBy: unknown
  #heard = 0
  #background = false

  constructor(client: RedisClient, silence: number, closing: AbortSignal) {
    this.#client = client
    this.#silence = silence
    this.#closing = closing
    closing.addEventListener('abort', this.#close)
    client.on('error', (error) => {
      this.#complaint = error // 'end' follows
      // Such as a database that does not exist: the driver would go on with another one.
      if (isReply(error)) this.sever(error)
    })
    client.on('end', () => this.sever(this.#complaint ?? new ConnectionEnded()))
  }

  get lost(): boolean {
    return this.#lostBy !== undefined
  }

  connect(within: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const call = this.#expect(within, within, (error) => reject(connectError(error)))
      if (this.#closing.aborted) return this.#close()
      this.#client.connect().then(
        () => {
          socketOf(this.#client)?.on('data', () => {
            this.#heard = performance.now()
          })
          this.#answered(call)
          resolve()
        },
        (error) => this.sever(this.#complaint ?? error),
      )
    })
  }

  /** All in one go, answered in order; an error of the server stands among the answers. `left`: of the caller's patience. */
  ask(commands: readonly Command[], left = Number.POSITIVE_INFINITY): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      if (this.lost) return reject(this.#lostBy)
      const call = this.#expect(left, this.#silence, reject)
      Promise.all(this.#sendTogether(commands)).then(
        (replies) => {
          this.#answered(call)
          resolve(replies)
        },
        (error) => this.sever(this.#complaint ?? error),
      )
    })
  }

  /** From now on it lets the process end, whatever it is asked. An idle one always does. */
  unref(): void {
    this.#background = true
    socketOf(this.#client)?.unref()
  }

  /** Rejects all that is still asked. */
  sever(error: unknown): void {
    if (this.lost) return
    this.#lostBy = error
    this.#closing.removeEventListener('abort', this.#close)
    sever(this.#client)
    for (const call of this.#calls) this.#refuse(call, error)
  }

  /** One packet, which is on its way when this returns: the server works while this process goes on. */
  #sendTogether(commands: readonly Command[]): Promise<unknown>[] {
    const socket = socketOf(this.#client)
    socket?.cork()
    const replies = commands.map((command) => this.#send(command))
    socket?.uncork()
    return replies
  }

  async #send([name, ...args]: Command): Promise<unknown> {
    try {
      return await this.#client.call(name, args)
    } catch (error) {
      if (isReply(error)) return error
      throw error
    }
  }

  #expect(left: number, silence: number, reject: (error: unknown) => void): Call {
    const call: Call = { asked: performance.now(), left, reject }
    this.#watch(call, silence)
    if (this.#calls.size === 0 && !this.#background) socketOf(this.#client)?.ref()
    this.#calls.add(call)
    return call
  }

  #watch(call: Call, silence: number): void {
    const now = performance.now()
    const patience = call.left - (now - call.asked)
    const quiet = now - Math.max(this.#heard, call.asked)
    // A process that was busy itself first reads what has come meanwhile.
    const look = () => setImmediate(() => this.#calls.has(call) && this.#overdue(call, silence))
    call.timer = setTimeout(look, Math.min(patience, silence - quiet))
    if (this.#background) call.timer.unref()
  }

  /** Who has run out of patience leaves alone; a server that was silent for all that time loses everybody. */
  #overdue(call: Call, silence: number): void {
    const now = performance.now()
    const quiet = Math.ceil(now - Math.max(this.#heard, call.asked))
    if (quiet >= silence) this.sever(new NoAnswer(`the server said nothing for ${quiet} ms`))
    else if (now - call.asked >= call.left)
      this.#refuse(call, new NoAnswer(`no answer within ${Math.round(call.left)} ms`))
    else this.#watch(call, silence)
  }

  #refuse(call: Call, error: unknown): void {
    this.#answered(call)
    call.reject(error)
  }

  #answered(call: Call): void {
    clearTimeout(call.timer)
    this.#calls.delete(call)
    if (this.#calls.size === 0) socketOf(this.#client)?.unref()
  }
}
