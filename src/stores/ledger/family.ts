import { afterSeal, type Family, isPlainChild } from '../../core/family.js'
import { isFinal } from '../../core/job.js'
import type { Entry } from './entry.js'
import { knows } from './parenthood.js'
import type { Tables } from './tables.js'
import { wake } from './waiting.js'

export function seal(tables: Tables, entry: Entry, now: number): boolean {
  const parenthood = entry.story?.parenthood
  if (parenthood?.open !== true || isFinal(entry.state)) return false
  parenthood.open = false
  parenthood.waiting--
  const { waiting, alarmed } = parenthood
  const verdict = afterSeal({ state: entry.state, waiting }, alarmed)
  if (verdict === 'ready') wake(tables, entry, now)
  if (verdict !== 'waits') return true
  tables.leave(entry)
  tables.enter(entry, 'blocked', Number.POSITIVE_INFINITY)
  return true
}

export function familyOf(tables: Tables, { job, story }: Entry): Family | undefined {
  const own = job.family
  const parenthood = story?.parenthood
  if (own === undefined && parenthood === undefined) return undefined
  const parents = (own?.parents ?? []).filter(({ id }) => knows(tables.jobs.get(id), job.id))
  // Engines that keep rows small know the flow of a plain child by its parent alone.
  const flow = own !== undefined && isPlainChild(own) && parents.length === 0 ? undefined : own?.flow
  return {
    flow: flow ?? job.id,
    node: own?.node,
    parents: parents.map(({ id }) => id),
    children: parenthood?.links.size ?? 0,
    waiting: (parenthood?.waiting ?? 0) + (parenthood?.fanned ?? 0),
    failed: parenthood?.failed ?? 0,
    open: parenthood?.open ?? false,
    replays: parenthood?.replays ?? 0,
    compensated: parenthood?.compensated ?? false,
  }
}
