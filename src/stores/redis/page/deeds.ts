/** Something that write.lua does, with its values. */
export type Deed = readonly [name: string, ...values: (string | number)[]]

/** What write.lua tells of jobs that were started by their places. */
export type Told = readonly [bodies: readonly string[], stories: readonly string[]]

const free: Deed = ['free']

/** A script takes some thousands of values at once, and not many more. */
const mostValues = 3_000

/** What is to be done: first all that has to be so, then what is written. */
export class Deeds {
  readonly #checks: Deed[] = []
  /** What is done for many at once, by name and what they have in common. */
  readonly #groups = new Map<string, (string | number)[][]>()
  readonly #writes: Deed[] = []
  #isAdding = false
  #hear: ((told: Told) => void) | undefined

  check(...deed: Deed): void {
    this.#checks.push(deed)
  }

  /** The same for many values; `deed` is what they have in common. */
  checkAll(deed: Deed, values: readonly (string | number)[]): void {
    for (let from = 0; from < values.length; from += mostValues)
      this.check(...deed, ...values.slice(from, from + mostValues))
  }

  write(...deed: Deed): void {
    this.#writes.push(deed)
  }

  /** A command of the server's, on a key of ours. */
  call(command: string, key: string, ...values: (string | number)[]): void {
    this.#writes.push(['call', command, key, ...values])
  }

  /** The same for many values, which come in pairs. */
  calls(command: string, key: string, values: readonly (string | number)[]): void {
    for (let from = 0; from < values.length; from += mostValues)
      this.call(command, key, ...values.slice(from, from + mostValues))
  }

  /** A new job; `deed` says what it has in common with others. */
  add(deed: Deed, ...values: (string | number)[]): void {
    this.#isAdding = true
    this.join(deed, ...values)
  }

  /** The same deed for another one; `deed` is what all of them have in common. Done before all that is not done for many. */
  join(deed: Deed, ...values: (string | number)[]): void {
    const name = deed.join('\n')
    const groups = this.#groups.get(name) ?? []
    if (groups.length === 0) this.#groups.set(name, groups)
    const last = groups.at(-1)
    if (last === undefined || last.length > mostValues) groups.push([...deed, ...values])
    else last.push(...values)
  }

  /** Jobs are started by their places; what is told of them comes in the order in which they joined. */
  tells(hear: (told: Told) => void): void {
    this.#hear = hear
  }

  hear(told: Told): void {
    this.#hear?.(told)
  }

  get isEmpty(): boolean {
    return this.#writes.length + this.#groups.size === 0
  }

  /** As write.lua reads them. A full server takes no new jobs; what ends or removes jobs it must take. */
  args(): (string | number)[] {
    const args: (string | number)[] = []
    const put = ([name, ...values]: readonly (string | number)[]) => {
      args.push(name as string, values.length)
      for (const value of values) args.push(value)
    }
    this.#checks.forEach(put)
    if (!this.#isAdding) put(free)
    for (const groups of this.#groups.values()) groups.forEach(put)
    this.#writes.forEach(put)
    if (this.#isAdding) put(free)
    return args
  }
}
