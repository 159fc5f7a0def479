import { MillraceError } from '../../../core/errors.js'

/** One writer at a time: while a transaction is open, all other writes wait in line. */
export class Turns {
  #taken = false
  #waiting: (() => void)[] = []

  /** Does it at once when it can be done, before the promise is returned. */
  async write<T>(work: () => T): Promise<T> {
    return this.#isFree ? work() : this.#inTurn(work)
  }

  /** Others wait from now on, until `release`. */
  take(): Promise<void> {
    return this.write(() => {
      this.#taken = true
    })
  }

  release(): void {
    this.#taken = false
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      next()
      if (this.#taken) return
    }
  }

  get #isFree(): boolean {
    return !this.#taken && this.#waiting.length === 0
  }

  #inTurn<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const turn = () => {
        clearTimeout(timer)
        try {
          resolve(work())
        } catch (error) {
          reject(error)
        }
      }
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((other) => other !== turn)
        reject(busy())
      }, patience)
      this.#waiting.push(turn)
    })
  }
}

/** Real milliseconds: a handler that waits for its own transaction would wait for ever. */
const patience = 5_000

function busy(): MillraceError {
  return new MillraceError(
    'STORE_BUSY',
    `another transaction was open for ${patience} ms; nothing was written. A handler that has a tx must write with it`,
    { limit: patience },
  )
}
