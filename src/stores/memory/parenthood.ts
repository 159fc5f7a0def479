import type { LinkRecord } from '../../core/family.js'
import type { Entry } from './entry.js'

/** What a job that has children knows of them. In this engine nothing gets lost between the two, so no count is ever wrong. */
export class Parenthood {
  waiting = 0
  failed = 0
  open = false
  /** Woken because a child died; that happens once. */
  alarmed = false
  /** Cancelled: so are its children, from this one on. */
  doomedFrom: number | undefined = undefined
  readonly byChild = new Map<string, Link>()
  #links: Link[] = []
  #sorted = true

  add(link: Link): void {
    this.#sorted &&= link.child > (this.#links.at(-1)?.child ?? '')
    this.#links.push(link)
    this.byChild.set(link.child, link)
    this.waiting++
  }

  /** Those that its own runs added are no longer its own. */
  forgetOwn(isInTheWay: (link: Link) => boolean): void {
    this.failed -= this.#links.filter((link) => link.own && isInTheWay(link)).length
    this.#links = this.#links.filter(({ own }) => !own)
    this.byChild.clear()
    for (const link of this.#links) this.byChild.set(link.child, link)
    this.waiting = this.#links.filter(({ end }) => end === undefined).length + (this.open ? 1 : 0)
  }

  /** By the children's ids. */
  get links(): readonly Link[] {
    if (!this.#sorted) this.#links.sort((a, b) => (a.child < b.child ? -1 : 1))
    this.#sorted = true
    return this.#links
  }
}

export type Link = { -readonly [K in keyof LinkRecord]: LinkRecord[K] } & {
  readonly wakes: boolean
  /** The parent's own run added the child. */
  readonly own: boolean
}

/** Whether it has children that have not ended, or may get more. */
export function isWaiting({ story }: Entry): boolean {
  return (story?.parenthood?.waiting ?? 0) > 0
}
