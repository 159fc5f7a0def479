import type { Violation } from './checker.js'

/** What is published of one fault. */
export interface Row {
  readonly engine: string
  readonly fault: string
  readonly injected: number
  readonly acked: number
  readonly lost: number
  readonly rerun: number
  readonly refusedStale: number
  readonly recoveryP50Ms: number | null
  readonly recoveryP99Ms: number | null
  readonly recoveryMaxMs: number | null
  /** How often a process was at work again after a fault had healed, of so many times that it had to be. */
  readonly resumed: number
  readonly interrupted: number
  readonly resumeP50Ms: number | null
  readonly resumeP99Ms: number | null
  readonly resumeMaxMs: number | null
  /** Processes that got SIGKILL, among the injected. */
  readonly kills: number
  readonly staleAttempts: number
  readonly duplicates: number
  /** From the last fault to an empty backlog. */
  readonly drainMs: number | null
  readonly ms: number
  readonly seed: number
  readonly note: string
  readonly violations: readonly Violation[]
}

/** Of a fault that could not be injected, or went wrong before it could be judged. */
export function emptyRow(engine: string, fault: string, seed: number): Row {
  return {
    engine,
    fault,
    injected: 0,
    acked: 0,
    lost: 0,
    rerun: 0,
    refusedStale: 0,
    recoveryP50Ms: null,
    recoveryP99Ms: null,
    recoveryMaxMs: null,
    resumed: 0,
    interrupted: 0,
    resumeP50Ms: null,
    resumeP99Ms: null,
    resumeMaxMs: null,
    kills: 0,
    staleAttempts: 0,
    duplicates: 0,
    drainMs: null,
    ms: 0,
    seed,
    note: '',
    violations: [],
  }
}

/** One fault in several runs, each on a store of its own. */
export function mergeRows(rows: readonly Row[]): Row {
  const [first] = rows
  if (first === undefined) throw new Error('no rows to merge')
  const sum = (
    key:
      | 'injected'
      | 'acked'
      | 'lost'
      | 'rerun'
      | 'refusedStale'
      | 'kills'
      | 'staleAttempts'
      | 'duplicates'
      | 'resumed'
      | 'interrupted'
      | 'ms',
  ) => rows.reduce((total, row) => total + row[key], 0)
  const most = (key: 'recoveryP99Ms' | 'recoveryMaxMs' | 'resumeP99Ms' | 'resumeMaxMs' | 'drainMs') => {
    const known = rows.map((row) => row[key]).filter((value) => value !== null)
    return known.length === 0 ? null : Math.max(...known)
  }
  const median = (key: 'recoveryP50Ms' | 'resumeP50Ms') =>
    medianOf(rows.map((row) => row[key]).filter((value) => value !== null))
  return {
    ...first,
    injected: sum('injected'),
    acked: sum('acked'),
    lost: sum('lost'),
    rerun: sum('rerun'),
    refusedStale: sum('refusedStale'),
    kills: sum('kills'),
    staleAttempts: sum('staleAttempts'),
    duplicates: sum('duplicates'),
    ms: sum('ms'),
    resumed: sum('resumed'),
    interrupted: sum('interrupted'),
    recoveryP50Ms: median('recoveryP50Ms'),
    recoveryP99Ms: most('recoveryP99Ms'),
    recoveryMaxMs: most('recoveryMaxMs'),
    resumeP50Ms: median('resumeP50Ms'),
    resumeP99Ms: most('resumeP99Ms'),
    resumeMaxMs: most('resumeMaxMs'),
    drainMs: most('drainMs'),
    note: [...new Set(rows.map((row) => row.note).filter((note) => note !== ''))].join('; '),
    violations: rows.flatMap((row) => row.violations),
  }
}

export function medianOf(values: readonly number[]): number | null {
  return percentileOf(values, 0.5)
}

export function percentileOf(values: readonly number[], part: number): number | null {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * part)] ?? null
}

const columns = [
  ['fault', (row: Row) => row.fault],
  ['injected', (row: Row) => row.injected],
  ['kills', (row: Row) => row.kills],
  ['acked', (row: Row) => row.acked],
  ['lost', (row: Row) => row.lost],
  ['rerun', (row: Row) => row.rerun],
  ['stale refused', (row: Row) => `${row.refusedStale}/${row.staleAttempts}`],
  ['duplicates', (row: Row) => row.duplicates],
  ['p50 ms', (row: Row) => row.recoveryP50Ms ?? '-'],
  ['p99 ms', (row: Row) => row.recoveryP99Ms ?? '-'],
  ['max ms', (row: Row) => row.recoveryMaxMs ?? '-'],
  ['resumed', (row: Row) => (row.interrupted === 0 ? '-' : `${row.resumed}/${row.interrupted}`)],
  ['p50/p99/max ms', resumeTimes],
  ['drain ms', (row: Row) => row.drainMs ?? '-'],
  ['took s', (row: Row) => (row.ms / 1000).toFixed(1)],
  ['verdict', (row: Row) => (row.violations.length === 0 ? 'ok' : `${row.violations.length} VIOLATED`)],
  ['note', (row: Row) => row.note],
] as const

const widths = [17, 8, 6, 7, 5, 6, 14, 11, 7, 7, 7, 9, 15, 9, 7, 11, 0]
const firstText = 15

function resumeTimes({ resumeP50Ms, resumeP99Ms, resumeMaxMs }: Row): string {
  return resumeP50Ms === null ? '-' : `${resumeP50Ms}/${resumeP99Ms}/${resumeMaxMs}`
}

export function headLine(): string {
  return line(columns.map(([title]) => title))
}

export function rowLine(row: Row): string {
  return line(columns.map(([, read]) => String(read(row))))
}

function line(cells: readonly string[]): string {
  return cells
    .map((cell, i) =>
      i === 0 || i >= firstText ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0),
    )
    .join('  ')
    .trimEnd()
}
