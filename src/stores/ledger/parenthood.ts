import type { LinkRecord } from '../../core/family.js'
import type { Entry } from './entry.js'

/** What a job that has children knows of them. A verb changes both sides in one step, so no count is ever wrong. */
export class Parenthood {
  /** Children that it waits for before it runs, and one more while it is open. */
  waiting = 0
  /** Children of its steps that have not ended. */
  fanned = 0
  /** Children that ended in its way. */
  failed = 0
  /** Those of its steps that did and do so still. */
  failedFanned = 0
  open = false
  /** Woken because a child died; that happens once. */
  alarmed = false
  /** Cancelled: so are its children, those behind this one. */
  doomedFrom: string | undefined = undefined
  /** How often children of its steps were replayed. */
  replays = 0
  /** It died, and what completed for it was undone. */
  compensated = false
  /** Fans whose children stay as they ended. */
  readonly closed = new Set<string>()
  /** How many of each fan have not ended; none for a fan that is over. */
  readonly fans = new Map<string, number>()
  readonly links: Links

  constructor(links: Links) {
    this.links = links
  }

  add(link: Link): void {
    this.links.add(link)
    this.count(link, 1)
  }

  /** It has ended, or lives again. */
  count({ fan }: Link, change: 1 | -1): void {
    if (fan === undefined) {
      this.waiting += change
      return
    }
    this.fanned += change
    const left = (this.fans.get(fan) ?? 0) + change
    if (left === 0) this.fans.delete(fan)
    else this.fans.set(fan, left)
  }

  /** It has ended in its parent's way. */
  countFailed({ fan }: Link): void {
    this.failed++
    if (fan !== undefined) this.failedFanned++
  }

  /** It stands in its parent's way no more, unless others were undone because of it. */
  countRisen({ fan }: Link): void {
    if (!this.compensated && this.failed > 0) this.failed--
    if (fan !== undefined) this.failedFanned--
  }

  /** Whether all of a fan have ended. */
  isOver(fan: string): boolean {
    return !this.fans.has(fan)
  }

  /** Children of its steps are no longer its own. */
  forgetFans(): void {
    this.failed -= this.failedFanned
    this.failedFanned = 0
    this.links.forgetFans()
    this.fans.clear()
    this.closed.clear()
    this.fanned = 0
  }
}

/** The links to the children of one job. */
export interface Links {
  readonly size: number
  get(child: string): Link | undefined
  add(link: Link): void
  /** Without those of its steps. */
  forgetFans(): void
  /** By the children's ids, those behind this one, `count` at most. */
  after(child: string, count: number): readonly Link[]
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
  return parent?.story?.parenthood?.links.get(child) !== undefined
}
