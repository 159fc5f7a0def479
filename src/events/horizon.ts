/**
 * How far positions are decided: nothing that is missing there can appear any more. Pure; what it goes by is a look at the
 * log: the highest position that could be read, and, looked at after that, who may have given out positions below it and is
 * not over yet. Once all of these are gone, everything up to that position is decided, however many others write by then.
 */
export class Horizon {
  #decided = 0
  /** By position. */
  #marks: Mark[] = []

  get decided(): number {
    return this.#decided
  }

  /** Looks have to be told in the order in which they were made: one that is older would take who came later for gone. */
  observe(head: number, writers: ReadonlySet<string>): void {
    for (const { head: seen, writers: then } of this.#marks)
      if (then.every((writer) => !writers.has(writer))) this.reached(seen)
    if (writers.size === 0) this.reached(head)
    this.#marks = this.#marks.filter((mark) => mark.head > this.#decided)
    this.#mark(head, [...writers])
  }

  /** Everything up to here was seen, without a gap from what is decided on. */
  reached(position: number): void {
    this.#decided = Math.max(this.#decided, position)
  }

  #mark(head: number, writers: readonly string[]): void {
    if (head <= (this.#marks.at(-1)?.head ?? this.#decided)) return
    // Any of them may go: the others just say it later. The oldest are the first to be decided.
    if (this.#marks.length === mostMarks) this.#marks.pop()
    this.#marks.push({ head, writers })
  }
}

interface Mark {
  readonly head: number
  readonly writers: readonly string[]
}

const mostMarks = 16
