/** What is costly to make, by name. A bounded number is kept; what was not asked for the longest goes first. */
export class Memo<T> {
  readonly #make: (name: string) => T
  readonly #kept = new Map<string, T>()

  constructor(make: (name: string) => T) {
    this.#make = make
  }

  get(name: string): T {
    const made = this.#kept.get(name) ?? this.#make(name)
    this.#kept.delete(name)
    this.#kept.set(name, made)
    if (this.#kept.size > mostKept) this.#kept.delete(this.#kept.keys().next().value as string)
    return made
  }
}

/** What croner makes of an expression takes 80 kB. */
const mostKept = 200
