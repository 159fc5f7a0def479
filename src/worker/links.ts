import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import type { ChildPage, WhichChildren } from '../core/children.js'
import type { Child } from '../core/definition.js'
import type { LinkRecord } from '../core/family.js'
import type { Failure } from '../core/job.js'

export async function readChildren(
  runtime: Runtime,
  parent: string,
  which: WhichChildren,
  cursor: string | undefined,
): Promise<ChildPage> {
  const page = await runtime.store.links({ parents: [parent], ...which, limit: bounds.batch, cursor })
  const children = page.links.map((link) => childOf(link, runtime)).filter((child) => child !== undefined)
  const open = page.links.filter(({ end }) => end === undefined).map(({ child }) => child)
  return { children, open, cursor: page.cursor }
}

/** A child as its parent's handler sees it; undefined for one that it is not to see. */
function childOf(link: LinkRecord, runtime: Runtime): Child | undefined {
  const { child: id, name, node, end, result, failure, onFailure } = link
  if (end === undefined || (end !== 'completed' && onFailure === 'ignore')) return undefined
  // Spelt out each time: a step may hold a hundred thousand of them, and a spread makes larger ones.
  if (end === 'cancelled') return { id, name, node, state: end, result: undefined, failure }
  if (end === 'dead') return { id, name, node, state: end, result: undefined, failure: failure as Failure }
  const value = result === undefined ? undefined : runtime.codec.decode(result)
  return { id, name, node, state: end, result: value, failure: undefined }
}
