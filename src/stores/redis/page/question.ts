/** Something that look.lua answers, with its values, and what becomes of the answer. */
export interface Question {
  readonly name: string
  readonly values?: readonly (string | number)[]
  take(answer: never): void
}
