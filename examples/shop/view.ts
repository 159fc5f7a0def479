import type { JobState, Priority, Stats } from 'millrace'
import { bar, clip, clipPainted, clock, count, duration, type Palette, pad, sparkline } from './format.js'
import type { FailureGroup, RunningReport, Times } from './meter.js'

/** Everything that one frame of the terminal view shows. */
export interface Picture {
  readonly file: string
  readonly upMs: number
  readonly ordersPerSecond: number
  readonly notice: Notice
  readonly stats: Stats
  readonly rate: number
  readonly perSecond: readonly number[]
  readonly times: ReadonlyMap<string, { readonly wait: Times; readonly run: Times }>
  readonly reports: readonly RunningReport[]
  readonly failures: readonly FailureGroup[]
  readonly now: number
}

export interface Notice {
  readonly text: string
  readonly urgent: boolean
}

const widest = 120
const shownStates = ['pending', 'scheduled', 'retrying', 'running', 'completed', 'dead', 'cancelled'] as const
const lanes: readonly Priority[] = ['critical', 'high', 'default', 'low']
const kinds = ['charge-payment', 'send-mail', 'resize-image', 'build-report']

/** The lines of a frame, at most `rows` of them, each narrower than `columns`. */
export function draw(picture: Picture, columns: number, rows: number, paint: Palette): string[] {
  const width = Math.min(columns - 1, widest)
  const lines = [
    ...heading(picture, width, paint),
    ...states(picture, width, paint),
    '',
    throughput(picture, width, paint),
    '',
    ...jobTable(picture, width, paint),
    '',
    ...lanesAndReports(picture, width, paint),
    '',
  ]
  lines.push(...failures(picture, width, rows - lines.length, paint))
  return lines.slice(0, rows).map((line) => clipPainted(line, width))
}

function heading({ file, upMs, ordersPerSecond, notice }: Picture, width: number, paint: Palette): string[] {
  const name = ' MILLRACE SHOP '
  const right = ` up ${clock(upMs)}`
  const about = pad(` ${ordersPerSecond} orders/s on ${file}`, width - name.length - right.length)
  const text = ` ${clip(notice.text, width - 2)} `
  const colour = notice.urgent ? paint.alarm : paint.dim
  return [
    paint.badge(name) + about + paint.dim(right),
    colour(text) + paint.dim('─'.repeat(width - text.length)),
  ]
}

function states({ stats }: Picture, width: number, paint: Palette): string[] {
  const colours: Partial<Record<JobState, (text: string) => string>> = {
    retrying: paint.yellow,
    running: paint.cyan,
    completed: paint.green,
    dead: paint.red,
  }
  const cells = spread(
    shownStates.map(() => 11),
    width,
  )
  const labels = shownStates.map((state, i) => pad(state, -(cells[i] ?? 0)))
  const numbers = shownStates.map((state, i) => {
    const n = stats.states[state]
    const text = pad(count(n), -(cells[i] ?? 0))
    return n === 0 ? paint.dim(text) : (colours[state]?.(text) ?? text)
  })
  return [paint.dim(labels.join('')), numbers.join('')]
}

function throughput({ rate, perSecond }: Picture, width: number, paint: Palette): string {
  const label = ` ${paint.bold('THROUGHPUT')} ${pad(rate.toFixed(1), -6)} jobs/s `
  const peak = `  peak ${count(Math.max(0, ...perSecond))}/s`
  const room = width - ' THROUGHPUT 000000 jobs/s '.length - peak.length
  return label + paint.green(sparkline(perSecond, room)) + paint.dim(peak)
}

function jobTable({ stats, times }: Picture, width: number, paint: Palette): string[] {
  const [first = 0, ...rest] = spread([16, 9, 9, 7, 11, 9, 10, 8], width)
  const cells = (texts: readonly string[]) => texts.map((text, i) => pad(text, -(rest[i] ?? 0))).join('')
  const rows = kinds.map((kind) => {
    const { completed = 0, retried = 0, dead = 0 } = stats.jobs[kind]?.totals ?? {}
    const { wait, run } = times.get(kind) ?? { wait: noTimes, run: noTimes }
    const durations = [wait.p50, wait.p95, run.p50, run.p95].map(duration)
    return pad(` ${kind}`, first) + cells([count(completed), count(retried), count(dead), ...durations])
  })
  const head = cells(['done', 'retried', 'dead', 'wait p50', 'p95', 'run p50', 'p95'])
  return [paint.bold(pad(' JOB', first)) + paint.dim(head), ...rows]
}

const noTimes: Times = { p50: undefined, p95: undefined }

/** Side by side: what waits in each lane on the left, the reports that run on the right. */
function lanesAndReports({ stats, reports }: Picture, width: number, paint: Palette): string[] {
  const most = Math.max(20, ...lanes.map((lane) => stats.lanes[lane].states.pending))
  const left = lanes.map((lane) => {
    const { pending, running } = stats.lanes[lane].states
    const waiting = `${pad(count(pending), -7)} ${paint.blue(bar(pending / most, 8).padEnd(8))}`
    return ` ${pad(lane, 9)}${waiting}${pad(count(running), -8)}`
  })
  const room = width - ' critical 1234567 ######## 1234567 │ '.length
  const right = reports.slice(0, lanes.length).map((report) => reportLine(report, room, paint))
  if (right.length === 0) right.push(paint.dim('none is being built'))
  const head = ` ${paint.bold(pad('LANE', 9))}${paint.dim('waiting          running')}`
  const wall = paint.dim(' │ ')
  return [`${head}${wall}${paint.bold('REPORTS')}`, ...left.map((line, i) => line + wall + (right[i] ?? ''))]
}

function reportLine({ title, part }: RunningReport, width: number, paint: Palette): string {
  const size = Math.max(4, width - 20)
  const done = bar(part, size)
  return `${pad(title, 14)}${paint.cyan(done)}${paint.dim('─'.repeat(size - done.length))}${pad(`${Math.floor(part * 100)} %`, -6)}`
}

function failures({ failures: groups, now }: Picture, width: number, rows: number, paint: Palette): string[] {
  const head = ` ${paint.bold('LAST FAILURES')} ${paint.dim('by cause')}`
  if (groups.length === 0) return [head, paint.dim(' none so far')]
  const shown = groups.slice(0, Math.max(0, rows - 1)).map((group) => {
    const ago = `${duration(Math.max(1000, now - group.lastAt)).replace(/\.\d/, '')} ago`
    const fate = group.fate === 'dead' ? paint.red(pad('dead', 9)) : paint.yellow(pad('retried', 9))
    const what = pad(group.message, width - 42)
    return ` ${pad(count(group.count), -5)} × ${pad(group.job, 15)}${what} ${fate}${pad(ago, -8)}`
  })
  return [head, ...shown]
}

/** Widens columns evenly until they fill the width. */
function spread(columns: readonly number[], width: number): number[] {
  const total = columns.reduce((sum, column) => sum + column, 0)
  const extra = Math.max(0, width - total)
  const share = Math.floor(extra / columns.length)
  return columns.map((column, i) => column + share + (i < extra % columns.length ? 1 : 0))
}
