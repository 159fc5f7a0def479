import { MillraceError } from '../../core/errors.js'
import type { ProjectionRecord, RebuildChange } from '../log.js'

export type Rebuildable = Pick<ProjectionRecord, 'live' | 'building'>

/** What a change of a rebuild comes to: the generation whose parts are added, and the one whose parts go. */
export interface NextRebuild {
  readonly builds: number | undefined
  readonly drops: number | undefined
}

/** Throws when it cannot be. */
export function nextRebuild({ live, building }: Rebuildable, change: RebuildChange): NextRebuild {
  if (change.do === 'begin') {
    if (building !== undefined) throw refused(change, `generation ${building} is being built already`)
    return { builds: live + 1, drops: undefined }
  }
  if (building !== change.generation)
    throw refused(change, `generation ${change.generation} is not being built`)
  return { builds: undefined, drops: change.do === 'swap' ? live : building }
}

export function noProjection(change: RebuildChange): MillraceError {
  return refused(change, 'there is no such projection; declare it first')
}

function refused({ do: what, name }: RebuildChange, why: string): MillraceError {
  return new MillraceError('STORE_REFUSED', `cannot ${what} a rebuild of '${name}': ${why}`, {
    field: 'projection',
    value: name,
  })
}
