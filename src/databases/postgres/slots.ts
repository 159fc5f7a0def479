import { MillraceError } from '../../core/errors.js'

/** So many at a time; others wait in line, not for ever. */
export class Slots {
  readonly #patience: number
  readonly #line: (() => void)[] = []
  #free: number

  constructor(count: number, patience: number) {
    this.#free = count
    this.#patience = patience
  }

  /** Resolves to what gives the slot back. */
  async take(): Promise<() => void> {
    if (this.#free > 0) this.#free--
    else await this.#turn()
    let isTaken = true
    return () => {
      if (isTaken) this.#giveBack()
      isTaken = false
    }
  }

  #turn(): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(start), 1)
        reject(tooMany(this.#patience))
      }, this.#patience)
      this.#line.push(start)
    })
  }

  #giveBack(): void {
    const start = this.#line.shift()
    if (start === undefined) this.#free++
    else start()
  }
}

function tooMany(patience: number): MillraceError {
  return new MillraceError(
    'STORE_BUSY',
    `no connection was free for another transaction within ${patience} ms; raise poolSize, or end transactions sooner`,
    { field: 'poolSize', limit: patience },
  )
}
