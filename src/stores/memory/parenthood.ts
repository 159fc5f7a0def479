import type { LinkRecord } from '../../core/family.js'
import type { Entry } from './entry.js'

/** What a job that has children knows of them. In this engine nothing gets lost between the two, so no count is ever wrong. */
export class Parenthood {
  /** Children that it waits for before it runs, and one more while it is open. */
  waiting = 0
  /** Children of its steps that have not ended. */
  fanned = 0
  failed = 0
  open = false
  /** Woken because a child died; that happens once. */
  alarmed = false
  /** Cancelled: so are its children, from this one on. */
  doomedFrom: number | undefined = undefined
  /** How often children of its steps were replayed. */
  replays = 0
  /** It died, and what completed for it was undone. */
  compensated = false
  /** Fans whose children stay as they ended. */
  readonly closed = new Set<string>()
  readonly byChild = new Map<string, Link>()
  /** How many of each fan have not ended. */
  readonly #fans = new Map<string, number>()
  #links: Link[] = []
  #sorted = true

  add(link: Link): void {
    this.#sorted &&= link.child > (this.#links.at(-1)?.child ?? '')
    this.#links.push(link)
    this.byChild.set(link.child, link)
    this.count(link, 1)
  }

  /** It has ended, or lives again. */
  count({ fan }: Link, change: 1 | -1): void {
    if (fan === undefined) {
      this.waiting += change
      return
    }
    this.fanned += change
    this.#fans.set(fan, (this.#fans.get(fan) ?? 0) + change)
  }

  /** Whether all of a fan have ended. */
  isOver(fan: string): boolean {
    return (this.#fans.get(fan) ?? 0) === 0
  }

  /** Children of its steps are no longer its own. */
  forgetFans(isInTheWay: (link: Link) => boolean): void {
    this.failed -= this.#links.filter((link) => link.fan !== undefined && isInTheWay(link)).length
    this.#links = this.#links.filter(({ fan }) => fan === undefined)
    this.byChild.clear()
    for (const link of this.#links) this.byChild.set(link.child, link)
    this.#fans.clear()
    this.closed.clear()
    this.fanned = 0
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
}

/** Whether it has to wait for children before it runs, or for more to come. */
export function isWaiting({ story }: Entry): boolean {
  return (story?.parenthood?.waiting ?? 0) > 0
}

/** Whether it has children that have not ended, its steps' among them, or may get more. */
export function hasOpenChildren({ story }: Entry): boolean {
  return story?.parenthood !== undefined && story.parenthood.waiting + story.parenthood.fanned > 0
}

/** Whether it has a child of that id. */
export function knows(parent: Entry | undefined, child: string): boolean {
  return parent?.story?.parenthood?.byChild.has(child) === true
}
