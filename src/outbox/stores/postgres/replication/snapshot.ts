/** Which transactions had ended when it was taken: `pg_current_snapshot()`, as the server writes it. */
export class Snapshot {
  /** The first that had not begun. */
  readonly #next: number
  readonly #underWay: ReadonlySet<number>

  constructor(text: string) {
    const [, next = '0', underWay = ''] = text.split(':')
    this.#next = Number(next)
    this.#underWay = new Set(underWay === '' ? [] : underWay.split(',').map(Number))
  }

  /** Of a transaction that has committed: whether it had by then. A stream tells the lower half of its number only. */
  hasSeen(xid: number): boolean {
    const whole = this.#whole(xid >>> 0)
    return whole < this.#next && !this.#underWay.has(whole)
  }

  /** The number with that lower half that is nearest to those of the snapshot. */
  #whole(low: number): number {
    const epoch = Math.floor(this.#next / half) * half
    const near = [epoch - half, epoch, epoch + half].map((base) => base + low)
    return near.reduce((a, b) => (Math.abs(b - this.#next) < Math.abs(a - this.#next) ? b : a))
  }
}

const half = 2 ** 32
