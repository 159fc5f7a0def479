/**
 * npm run chaos -- --engine sqlite [--json FILE] [--kills N] [--fault NAME]... [--seed S] [--keep]
 *
 * Real processes on one store, killed, frozen, starved and poisoned; one checker over what they wrote down.
 * --keep leaves the stores and journals for a look. A seed makes the same choices again (which point, when, what work); the machine's own timing stays free.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type EngineName, engines } from './engine.js'
import type { Fault } from './fault.js'
import { faults } from './faults.js'
import { Random } from './random.js'
import { emptyRow, headLine, type Row, rowLine } from './row.js'

const fullRun = 340
const shownViolations = 8

const options = readOptions()
const random = new Random(options.seed)
const folder = mkdtempSync(join(tmpdir(), 'millrace-chaos-'))
process.once('exit', () =>
  options.keep ? console.log(`kept ${folder}`) : rmSync(folder, { recursive: true, force: true }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

console.log(`chaos: engine ${options.engine}, ${options.kills} kills, seed ${options.seed}`)
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
conclude()

async function attack(fault: Fault): Promise<Row> {
  const kills = shareOf(fault)
  showProgress(`${fault.name} …`)
  const luck = random.fork(fault.name)
  try {
    return await fault.run({
      engine: options.engine,
      fault: fault.name,
      folder: join(folder, fault.name),
      random: luck,
      kills,
      scale: Math.min(1, options.kills / fullRun),
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
function shareOf({ weight }: Fault): number {
  const total = options.faults.reduce((sum, fault) => sum + fault.weight, 0)
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
      kills: { type: 'string', default: String(fullRun) },
      fault: { type: 'string', multiple: true, default: [] },
      keep: { type: 'boolean', default: false },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    },
  })
  if (!(values.engine in engines)) {
    refuse(
      `there is no chaos for engine '${values.engine}'; known: ${Object.keys(engines).join(', ')} (memory lives and dies with its process)`,
    )
  }
  const chosen = values.fault.map(
    (name) => faults.find((fault) => fault.name === name) ?? refuse(unknownFault(name)),
  )
  return {
    engine: values.engine as EngineName,
    json: values.json,
    keep: values.keep,
    kills: wholeNumber(values.kills, 'kills'),
    faults: chosen.length > 0 ? chosen : faults,
    seed: wholeNumber(values.seed, 'seed'),
  }
}

function unknownFault(name: string): string {
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
