import type { Link, Links } from '../ledger/parenthood.js'
import { isSame } from './book.js'
import type { WindowNeed } from './needs.js'
import type { Page } from './page.js'

export interface LinkRow {
  readonly parent: number
  readonly child: string
  readonly fan: string | null
  /** Of a child that completed; all other ends are told in `state`. */
  readonly ended_at: number | null
  readonly result: string | null
  readonly state: string
}

/** The links of one parent: read one by one, or some behind a place. */
export class PagedLinks implements Links {
  readonly #page: Page
  readonly #parent: number
  readonly #id: string
  readonly #isNew: boolean
  readonly #links = new Map<string, Link | undefined>()
  /** As they were read. */
  readonly #rows = new Map<string, LinkRow>()
  #last: { readonly state: string; readonly told: Told } = { state: '', told: { name: '' } }
  /** Those of its steps, as they are stored, are no longer its own. */
  #fansForgotten = false
  size: number
  fanned: number

  constructor(
    page: Page,
    parent: { readonly seq: number; readonly id: string },
    counts: { size: number; fanned: number } | undefined,
  ) {
    this.#page = page
    this.#parent = parent.seq
    this.#id = parent.id
    this.#isNew = counts === undefined
    this.size = counts?.size ?? 0
    this.fanned = counts?.fanned ?? 0
  }

  get(child: string): Link | undefined {
    if (this.#links.has(child)) return this.#links.get(child)
    if (this.#isNew) return undefined
    const row = this.#page.row<LinkRow>('link', linkKey(this.#parent, child))
    return row === null ? undefined : this.#ofRow(row)
  }

  add(link: Link): void {
    this.#links.set(link.child, link)
    this.size++
    if (link.fan !== undefined) this.fanned++
  }

  forgetFans(): void {
    this.#fansForgotten = true
    this.size -= this.fanned
    this.fanned = 0
    for (const [child, link] of this.#links) if (link?.fan !== undefined) this.#links.set(child, undefined)
  }

  after(child: string, count: number): Link[] {
    const stored = this.#isNew ? [] : this.#storedAfter(child, count)
    const added = [...this.#links.values()].filter(
      (link) => link !== undefined && link.child > child,
    ) as Link[]
    const all = new Set([...stored, ...added])
    return [...all].sort((a, b) => (a.child < b.child ? -1 : 1)).slice(0, count)
  }

  changes() {
    const added: LinkRow[] = []
    const kept: LinkRow[] = []
    let last: Link | undefined
    let lastRow: LinkRow | undefined
    for (const link of this.#links.values()) {
      if (link === undefined) continue
      const isLike = last !== undefined && areAlike(last, link)
      const row: LinkRow = isLike
        ? { ...(lastRow as LinkRow), child: link.child }
        : writeLink(this.#parent, link)
      last = link
      lastRow = row
      const before = this.#rows.get(link.child)
      if (before === undefined) added.push(row)
      else if (!isSame({ ...row }, { ...before }) || this.#fansForgotten) kept.push(row)
    }
    return { added, kept, fansForgotten: this.#fansForgotten }
  }

  #storedAfter(child: string, count: number): Link[] {
    const need = linksNeed(this.#parent, child, count)
    const window = this.#page.window(need.shelf, need.scope, need.from)
    if (window === undefined || (!window.isComplete && window.rows.length < count))
      return this.#page.lacks(need)
    return window.rows.flatMap((row) => this.#ofRow(row as LinkRow) ?? [])
  }

  #ofRow(row: LinkRow): Link | undefined {
    if (this.#links.has(row.child)) return this.#links.get(row.child)
    this.#rows.set(row.child, row)
    const isForgotten = this.#fansForgotten && row.fan !== null
    const link = isForgotten ? undefined : readLink(this.#id, row, this.#told(row.state))
    this.#links.set(row.child, link)
    return link
  }

  /** Most are told the same. */
  #told(state: string): Told {
    if (state !== this.#last.state) this.#last = { state, told: JSON.parse(state) as Told }
    return this.#last.told
  }
}

export function linksNeed(parent: number, child: string, count: number): WindowNeed {
  return { shelf: 'links', scope: [parent, child], from: { rank: 0, seq: 0 }, count }
}

/** The same of a parent whose position is not known, with that. */
export function linksOfNeed(id: string, child: string, count: number): WindowNeed {
  return { shelf: 'linksOf', scope: [id, child], from: { rank: 0, seq: 0 }, count }
}

export function linkKey(parent: number, child: string): string {
  return `${parent}\n${child}`
}

export function childIn(key: string): string {
  return key.slice(key.indexOf('\n') + 1)
}

/** Of a link: what it would be without is left out, and what has a column of its own. */
type Told = Partial<Omit<Link, 'parent' | 'child' | 'fan'>> & Pick<Link, 'name'>

function readLink(parent: string, row: LinkRow, told: Told): Link {
  const { child, fan, ended_at, result } = row
  const isCompleted = ended_at !== null
  return {
    parent,
    child,
    name: told.name,
    node: told.node,
    onFailure: told.onFailure ?? usualPolicy,
    wakes: told.wakes ?? false,
    undo: told.undo,
    fan: fan ?? undefined,
    end: isCompleted ? 'completed' : told.end,
    endedAt: isCompleted ? ended_at : told.endedAt,
    result: isCompleted ? (result ?? undefined) : told.result,
    failure: told.failure,
    undone: told.undone ?? false,
  }
}

const usualPolicy = 'fail'

/** Whether they are written alike, but for the child. */
function areAlike(one: Link, other: Link): boolean {
  for (const key in other)
    if (key !== 'child' && one[key as keyof Link] !== other[key as keyof Link]) return false
  return true
}

export function writeLink(parent: number, link: Link): LinkRow {
  const {
    child,
    name,
    node,
    onFailure,
    wakes,
    undo,
    fan = null,
    end,
    endedAt,
    result,
    failure,
    undone,
  } = link
  const isCompleted = end === 'completed'
  const told: { [K in keyof Told]: Told[K] | undefined } = {
    name,
    node,
    onFailure: onFailure === usualPolicy ? undefined : onFailure,
    wakes: wakes || undefined,
    undo,
    ...(isCompleted ? {} : { end, endedAt, result }),
    failure,
    undone: undone || undefined,
  }
  return {
    parent,
    child,
    fan,
    ended_at: isCompleted ? (endedAt ?? 0) : null,
    result: isCompleted ? (result ?? null) : null,
    state: JSON.stringify(told),
  }
}
