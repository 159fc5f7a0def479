import { type Duration, milliseconds } from '../core/duration.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import { checkSignal } from './signal.js'
import { compileLease } from './worker-options.js'

export interface RebuildOptions {
  /** Ends it; what is built stays, and the next call goes on with it. */
  readonly signal?: AbortSignal
  /** Called now and then. */
  readonly onProgress?: (progress: RebuildProgress) => void
  /** How long the old table stays after the swap, for readers that have asked for its name before. @default '10s' */
  readonly keepOld?: Duration
  /** How long it may be silent before another rebuild goes on with what it has built. @default '30s' */
  readonly lease?: Duration
  /**
   * How often an event whose handler throws is tried before the rebuild rejects with what that threw. What is built stays,
   * and the next call goes on with it. A projection with `skip` sets such events aside instead.
   * @default 10
   */
  readonly tries?: number
}

export interface CompiledRebuild {
  readonly signal: AbortSignal | undefined
  readonly onProgress: ((progress: RebuildProgress) => void) | undefined
  readonly keepOld: number
  readonly lease: number
  readonly tries: number
}

export function compileRebuild(raw: RebuildOptions): CompiledRebuild {
  noUnknown(raw, ['signal', 'onProgress', 'keepOld', 'lease', 'tries'], 'rebuild')
  const { signal, onProgress, keepOld = '10s', lease, tries = 10 } = raw
  checkSignal(signal)
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', onProgress, 'a function')
  return {
    signal,
    onProgress,
    keepOld: milliseconds(keepOld, 'keepOld'),
    lease: compileLease(lease),
    tries: integer(tries, 'tries', 1, 1_000_000),
  }
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
