/** Something that write.lua does, with its values. */
export type Deed = readonly [name: string, ...values: (string | number)[]]

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

  /** As write.lua reads them. */
  args(): (string | number)[] {
    return [...this.#checks, ...this.#writes].flatMap(([name, ...values]) => [name, values.length, ...values])
  }
}
