import { bounds } from '../core/bounds.js'
import type { FailurePolicy, LinkRecord } from '../core/family.js'
import type { Failure, JobRecord, JobState } from '../core/job.js'
import { linksOf } from './links.js'
import type { Runtime } from './runtime.js'

/** A job among those that wait for each other. */
export interface GraphNode {
  readonly id: string
  /** Its name in the flow, if it has one. */
  readonly node: string | undefined
  /** The name of its definition. */
  readonly name: string
  /** How it stands or ended; `removed` when that is not known any more. */
  readonly state: JobState | 'removed'
  readonly failure: Failure | undefined
  readonly onFailure: FailurePolicy | undefined
  /** Ids of jobs that wait for it, and of those that it waits for. */
  readonly before: readonly string[]
  readonly after: readonly string[]
}

export interface Graph {
  /** The job that was asked for comes first, what it waits for behind it. */
  readonly nodes: readonly GraphNode[]
  /** There are more than asked for. */
  readonly more: boolean
}

/** Of this job and all that it waits for, directly or not; undefined when there is no such job. */
export async function readGraph(runtime: Runtime, root: string, limit: number): Promise<Graph | undefined> {
  await runtime.ready()
  if ((await runtime.store.get([root]))[0] === undefined) return undefined
  const walk = new Walk(root, limit)
  for (let parents = walk.next(); parents.length > 0 && !walk.isFull; parents = walk.next()) {
    for await (const link of linksOf(runtime, { parents })) {
      walk.add(link)
      if (walk.isFull) break
    }
  }
  const records = new Map<string, JobRecord>()
  for (let i = 0; i < walk.ids.length; i += bounds.page) {
    const ids = walk.ids.slice(i, i + bounds.page)
    for (const record of await runtime.store.get(ids))
      if (record !== undefined) records.set(record.id, record)
  }
  return { nodes: walk.ids.map((id) => walk.nodeOf(id, records.get(id))), more: walk.isFull }
}

/** Breadth first, each job once. */
class Walk {
  readonly ids: string[]
  isFull = false
  readonly #limit: number
  readonly #links = new Map<string, LinkRecord[]>()
  readonly #children = new Map<string, string[]>()
  #asked = 0

  constructor(root: string, limit: number) {
    this.ids = [root]
    this.#limit = limit
    this.#links.set(root, [])
  }

  /** Jobs whose children are not known yet. */
  next(): string[] {
    const parents = this.ids.slice(this.#asked, this.#asked + bounds.page)
    this.#asked += parents.length
    return parents
  }

  add(link: LinkRecord): void {
    const known = this.#links.get(link.child)
    if (known === undefined && this.ids.length >= this.#limit) {
      this.isFull = true
      return
    }
    if (known === undefined) {
      this.ids.push(link.child)
      this.#links.set(link.child, [link])
    } else {
      known.push(link)
    }
    const children = this.#children.get(link.parent)
    if (children === undefined) this.#children.set(link.parent, [link.child])
    else children.push(link.child)
  }

  nodeOf(id: string, record: JobRecord | undefined): GraphNode {
    const links = this.#links.get(id) ?? []
    const link = links[0]
    return {
      id,
      node: link?.node ?? record?.family?.node,
      name: link?.name ?? record?.name ?? '',
      state: record?.state ?? link?.end ?? 'removed',
      failure: record?.failure ?? link?.failure,
      onFailure: link?.onFailure,
      before: links.map(({ parent }) => parent),
      after: this.#children.get(id) ?? [],
    }
  }
}
