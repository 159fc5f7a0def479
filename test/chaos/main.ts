/**
 * npm run chaos -- --engine sqlite|postgres|redis|redis-cluster|outbox-sqlite|outbox-postgres [--only FAULT]...
 *                  [--kills N] [--seed S] [--outage SECONDS] [--set NAME=VALUE]... [--json FILE] [--keep]
 *
 * Real processes on one store, or around one outbox, killed, frozen, starved and poisoned, and its server and network with
 * them; one checker over what they wrote down. --kills is the number of all kills, shared by the faults that are chosen; without it, each
 * gets what it gets in a full run. --outage is how long the longest absence of a server is; --set changes a setting
 * of it, such as synchronous_commit=off, to see what that costs. --keep leaves the stores and journals for a look. A seed
 * makes the same choices again (which point, when, what work); the machine's own timing stays free.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Random } from './random.js'
import { emptyRow, headLine, type Row, rowLine } from './row.js'
import { type BoundFault, type Subject, subjects } from './subjects.js'

const shownViolations = 8

const options = readOptions()
const random = new Random(options.seed)
const { subject } = options
const ground = await subject.prepare(options.settings)
const folder = mkdtempSync(join(tmpdir(), 'millrace-chaos-'))
process.once('exit', () =>
  options.keep ? console.log(`kept ${folder}`) : rmSync(folder, { recursive: true, force: true }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

console.log(
  `chaos: engine ${options.engine}, ${options.isShared ? `${options.kills} kills` : 'kills of a full run'}, seed ${options.seed}`,
)
console.log(headLine())
const startedAt = Date.now()
const rows: Row[] = []
for (const fault of options.faults) {
  rows.push(await attack(fault))
  showProgress('')
  const row = rows.at(-1) as Row
  console.log(rowLine(row))
  for (const { invariant, text } of row.violations.slice(0, shownViolations)) {
    console.log(`  ${invariant}: ${text.replaceAll(/\s+/g, ' ').slice(0, 400)}`)
  }
}
await ground.close()
conclude()

async function attack(fault: BoundFault): Promise<Row> {
  const kills = shareOf(fault)
  showProgress(`${fault.name} …`)
  const luck = random.fork(fault.name)
  try {
    return await ground.run(fault, {
      fault: fault.name,
      folder: join(folder, fault.name),
      random: luck,
      kills,
      scale: Math.min(1, options.kills / subject.kills),
      outageMs: options.outage * 1000,
      progress: (text) => showProgress(`${fault.name}: ${text}${fault.weight > 0 ? ` of ${kills}` : ''}`),
    })
  } catch (error) {
    const violation = {
      invariant: 'harness',
      text: error instanceof Error ? (error.stack ?? error.message) : String(error),
    } as const
    return { ...emptyRow(options.engine, fault.name, luck.seed), violations: [violation] }
  }
}

/** Its part of all kills, at least one. */
function shareOf({ weight }: BoundFault): number {
  const sharing = options.isShared ? options.faults : subject.faults
  const total = sharing.reduce((sum, fault) => sum + fault.weight, 0)
  return weight === 0 ? 0 : Math.max(1, Math.ceil((options.kills * weight) / total))
}

function conclude(): void {
  const sum = (key: 'kills' | 'lost' | 'rerun' | 'staleAttempts' | 'refusedStale') =>
    rows.reduce((total, row) => total + row[key], 0)
  const violations = rows.reduce((total, row) => total + row.violations.length, 0)
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
  console.log(
    `${sum('kills')} kills in ${seconds} s: lost ${sum('lost')}, completed re-run ${sum('rerun')}, ` +
      `stale writes refused ${sum('refusedStale')} of ${sum('staleAttempts')}, violations ${violations}; seed ${options.seed}`,
  )
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`)
  process.exit(violations === 0 ? 0 : 1)
}

/** One line that is written over, on a terminal only. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      engine: { type: 'string', default: 'sqlite' },
      json: { type: 'string' },
      kills: { type: 'string' },
      only: { type: 'string', multiple: true, default: [] },
      outage: { type: 'string', default: '60' },
      set: { type: 'string', multiple: true, default: [] },
      keep: { type: 'boolean', default: false },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    },
  })
  const { engine } = values
  const subject: Subject =
    subjects[engine] ??
    refuse(
      `there is no chaos for engine '${engine}'; known: ${Object.keys(subjects).join(', ')} (memory lives and dies with its process)`,
    )
  const { faults } = subject
  const chosen = values.only.map(
    (name) => faults.find((fault) => fault.name === name) ?? refuse(unknownFault(name, faults)),
  )
  return {
    engine,
    subject,
    json: values.json,
    keep: values.keep,
    kills: values.kills === undefined ? subject.kills : wholeNumber(values.kills, 'kills'),
    isShared: values.kills !== undefined,
    outage: wholeNumber(values.outage, 'outage'),
    faults: chosen.length > 0 ? chosen : faults,
    seed: wholeNumber(values.seed, 'seed'),
    settings: Object.fromEntries(values.set.map((text) => text.split('=', 2) as [string, string])),
  }
}

function unknownFault(name: string, faults: readonly BoundFault[]): string {
  return `there is no fault '${name}'; known: ${faults.map((fault) => fault.name).join(', ')}`
}

function wholeNumber(text: string, option: string): number {
  const value = Number(text)
  return Number.isInteger(value) && value >= 0
    ? value
    : refuse(`--${option} is '${text}'; expected a whole number`)
}

function refuse(message: string): never {
  console.error(message)
  process.exit(2)
}
