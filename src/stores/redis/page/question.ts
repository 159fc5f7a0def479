/** Something that look.lua answers, with its values, and what becomes of the answer. */
export interface Question {
  readonly name: string
  readonly values?: readonly (string | number)[]
  /** Its answer has numbers that nobody else gets, as long as the server does not forget that it gave them. */
  readonly gives?: true
  take(answer: never): void
}
