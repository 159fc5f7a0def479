/** One attempt for all who ask for it. One that failed is made again: the next to ask may find the file or the server. */
export class Opening {
  readonly #open: () => Promise<void>
  #attempt: Promise<void> | undefined

  constructor(open: () => Promise<void>) {
    this.#open = open
  }

  done(): Promise<void> {
    this.#attempt ??= this.#open().catch((error: unknown) => {
      this.#attempt = undefined
      throw error
    })
    return this.#attempt
  }

  /** What was opened is closed: the next to ask opens it again. */
  forget(): void {
    this.#attempt = undefined
  }

  /** No attempt is under way any more, however it ended. */
  async over(): Promise<void> {
    await this.#attempt?.catch(() => {})
  }
}
