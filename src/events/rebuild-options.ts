import { type Duration, milliseconds } from '../core/duration.js'
import { noUnknown } from '../core/options.js'

export interface RebuildOptions {
  /** Ends it; what is built stays, and the next call goes on with it. */
  readonly signal?: AbortSignal
  /** Called now and then. */
  readonly onProgress?: (progress: RebuildProgress) => void
  /** How long the old table stays after the swap, for readers that have asked for its name before. @default '10s' */
  readonly keepOld?: Duration
}

export interface CompiledRebuild {
  readonly signal: AbortSignal | undefined
  readonly onProgress: ((progress: RebuildProgress) => void) | undefined
  readonly keepOld: number
}

export function compileRebuild(raw: RebuildOptions): CompiledRebuild {
  noUnknown(raw, ['signal', 'onProgress', 'keepOld'], 'rebuild')
  const { signal, onProgress, keepOld = '10s' } = raw
  return { signal, onProgress, keepOld: milliseconds(keepOld, 'keepOld') }
}

export interface RebuildProgress {
  readonly generation: number
  /** Everything up to here is in it. */
  readonly position: number
  /** The newest event's. */
  readonly end: number
}

export interface Rebuilt {
  /** The one that readers use now. */
  readonly generation: number
  readonly table: string
}
