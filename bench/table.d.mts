import type { Summary } from './statistics.mjs'

export interface Row extends Summary {
  /** Why there are no figures. */
  readonly problem?: string
  readonly engine: string
  readonly case: string
  readonly peerName: string | null
  readonly unit: string
}

export function table(rows: readonly Row[]): string
export function figure(value: number): string
