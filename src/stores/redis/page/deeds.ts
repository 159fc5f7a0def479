/** Something that write.lua does, with its values. */
export type Deed = readonly [name: string, ...values: (string | number)[]]

const free: Deed = ['free']

/** What is to be done: first all that has to be so, then what is written. */
export class Deeds {
  readonly #checks: Deed[] = []
  readonly #writes: Deed[] = []

  check(...deed: Deed): void {
    this.#checks.push(deed)
  }

  write(...deed: Deed): void {
    this.#writes.push(deed)
  }

  /** A command of the server's, on a key of ours. */
  call(command: string, key: string, ...values: (string | number)[]): void {
    this.#writes.push(['call', command, key, ...values])
  }

  get isEmpty(): boolean {
    return this.#writes.length === 0
  }

  /** As write.lua reads them. A full server takes no new jobs; what ends or removes jobs it must take. */
  args(): (string | number)[] {
    const isAdding = this.#checks.some(([name]) => name === 'new')
    const writes = isAdding ? [...this.#writes, free] : [free, ...this.#writes]
    return [...this.#checks, ...writes].flatMap(([name, ...values]) => [name, values.length, ...values])
  }
}
