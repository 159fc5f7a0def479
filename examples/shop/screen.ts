import { writeSync } from 'node:fs'

const esc = '\x1b['
const enter = `${esc}?1049h${esc}?25l${esc}?7l${esc}2J` // alternate screen, no cursor, no wrapped lines
const leave = `${esc}?7h${esc}?25h${esc}?1049l`
// Terminals that know it show a frame all at once; the others ignore it.
const beginFrame = `${esc}?2026h${esc}H`
const endFrame = `${esc}J${esc}?2026l`

/** A terminal that is drawn over in place, and given back as it was whatever happens. */
export class Screen {
  readonly #out = process.stdout
  readonly #restore = () => writeSync(1, leave) // not through the stream: at exit there is no later
  #open = false

  open(): void {
    this.#open = true
    this.#out.write(enter)
    process.once('exit', this.#restore)
  }

  close(): void {
    if (!this.#open) return
    this.#open = false
    process.off('exit', this.#restore)
    this.#out.write(leave)
  }

  /** A pseudo terminal without a window says 0. */
  get size(): { readonly columns: number; readonly rows: number } {
    return { columns: this.#out.columns || 80, rows: this.#out.rows || 24 }
  }

  show(lines: readonly string[]): void {
    if (!this.#open) return
    this.#out.write(beginFrame + lines.map((line) => `${line}${esc}K`).join('\r\n') + endFrame)
  }
}
