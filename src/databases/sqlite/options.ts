import type { Clock } from '../../core/clock.js'
import { type Duration, milliseconds } from '../../core/duration.js'
import { invalid, noUnknown } from '../../core/options.js'
import { systemClock } from '../../system/clock.js'
import type { ConnectionOptions } from './connection.js'

export interface SqliteOptions {
  /** Path of the database file. It may hold the caller's own tables too. */
  readonly file: string
  /**
   * `full` survives a power cut; `normal` may then lose the last commits. A crash of the process loses
   * nothing in either. @default 'full'
   */
  readonly synchronous?: 'full' | 'normal'
  /** How long a write waits for other processes. @default '30s' */
  readonly busyTimeout?: Duration
  /** Whether the file is examined when it opens; `full` reads all of it. @default 'off' */
  readonly integrityCheck?: 'quick' | 'full' | 'off'
  readonly clock?: Clock
}

export interface CompiledOptions extends ConnectionOptions {
  readonly clock: Clock
}

export function compileOptions(raw: SqliteOptions): CompiledOptions {
  noUnknown(raw, ['file', 'synchronous', 'busyTimeout', 'integrityCheck', 'clock'], 'sqlite')
  if (typeof raw.file !== 'string' || raw.file === '') throw invalid('file', raw.file, 'a path')
  return {
    file: raw.file,
    synchronous: raw.synchronous ?? 'full',
    busyTimeout: milliseconds(raw.busyTimeout ?? '30s', 'busyTimeout'),
    integrityCheck: raw.integrityCheck ?? 'off',
    clock: raw.clock ?? systemClock,
  }
}
