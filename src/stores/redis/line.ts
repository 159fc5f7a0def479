/**
 * One connection, from its beginning to its end. What is asked is answered, or rejected when the connection is lost: by
 * itself, or because the server has said nothing for too long. Nobody waits for a half-open one.
 */
import { type RedisClient, sever, socketOf } from './driver.js'
import { ConnectionEnded, closed, connectError, isReply, NoAnswer, withoutCommand } from './errors.js'
import type { Timeouts } from './options.js'

export type Command = readonly [name: string, ...args: (string | number)[]]

interface Call {
  readonly asked: number
  readonly left: number
  /** So long the server may say nothing. */
  readonly silence: number
  readonly reject: (error: unknown) => void
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
  /** When it is looked for calls that are overdue. One that is answered leaves that as it is: timers are slow to set. */
  #lookAt = Number.POSITIVE_INFINITY
  #lookTimer: NodeJS.Timeout | undefined

  constructor(client: RedisClient, silence: number, closing: AbortSignal) {
    this.#client = client
    this.#silence = silence
    this.#closing = closing
    closing.addEventListener('abort', this.#close)
    client.on('error', (error) => {
      this.#complaint = withoutCommand(error) // 'end' follows
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
        (error) => this.sever(this.#complaint ?? withoutCommand(error)),
      )
    })
  }

  /** One packet, on its way when this returns. An error of the server stands among the answers. `left`: of the caller's patience. */
  ask(commands: readonly Command[], left = Number.POSITIVE_INFINITY): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      if (this.lost) return reject(this.#lostBy)
      const call = this.#expect(left, this.#silence, reject)
      const replies = new Array<unknown>(commands.length)
      let missing = commands.length
      const take = (i: number, reply: unknown) => {
        replies[i] = reply
        if (--missing > 0) return
        this.#answered(call)
        resolve(replies)
      }
      const send = ([name, ...args]: Command, i: number) => {
        this.#client.call(name, args).then(
          (reply) => take(i, reply),
          (error) =>
            isReply(error)
              ? take(i, withoutCommand(error))
              : this.sever(this.#complaint ?? withoutCommand(error)),
        )
      }
      if (commands.length === 1) send(commands[0] as Command, 0)
      else this.#together(() => commands.forEach(send))
    })
  }

  /** What `work` asks before it returns goes out as one packet. */
  #together(work: () => void): void {
    const socket = socketOf(this.#client)
    socket?.cork()
    try {
      work()
    } finally {
      socket?.uncork()
    }
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
    clearTimeout(this.#lookTimer)
    for (const call of this.#calls) this.#refuse(call, error)
  }

  #expect(left: number, silence: number, reject: (error: unknown) => void): Call {
    const call: Call = { asked: performance.now(), left, silence, reject }
    this.#lookBy(this.#dueOf(call))
    if (this.#calls.size === 0 && !this.#background) this.#keepsProcess(true)
    this.#calls.add(call)
    return call
  }

  #dueOf({ asked, left, silence }: Call): number {
    return Math.min(asked + left, Math.max(this.#heard, asked) + silence)
  }

  #lookBy(due: number): void {
    if (due >= this.#lookAt) return
    clearTimeout(this.#lookTimer)
    this.#lookAt = due
    // A process that was busy itself first reads what has come meanwhile.
    const look = () => setImmediate(() => this.#look())
    this.#lookTimer = setTimeout(look, Math.max(1, Math.ceil(due - performance.now())))
    if (this.#background || this.#calls.size === 0) this.#lookTimer.unref()
  }

  /** Who has run out of patience leaves alone; a server that was silent for all that time loses everybody. */
  #look(): void {
    this.#lookAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    for (const call of this.#calls) {
      const quiet = Math.ceil(now - Math.max(this.#heard, call.asked))
      if (quiet >= call.silence) return this.sever(new NoAnswer(`the server said nothing for ${quiet} ms`))
      if (now - call.asked >= call.left)
        this.#refuse(call, new NoAnswer(`no answer within ${Math.round(call.left)} ms`))
    }
    for (const call of this.#calls) this.#lookBy(this.#dueOf(call))
  }

  #refuse(call: Call, error: unknown): void {
    this.#answered(call)
    call.reject(error)
  }

  #answered(call: Call): void {
    this.#calls.delete(call)
    if (this.#calls.size === 0) this.#keepsProcess(false)
  }

  #keepsProcess(keeps: boolean): void {
    const socket = socketOf(this.#client)
    if (keeps) {
      socket?.ref()
      this.#lookTimer?.ref()
    } else {
      socket?.unref()
      this.#lookTimer?.unref()
    }
  }
}
