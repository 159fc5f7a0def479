// npm run bench [-- --engine NAME] [--case TEXT] [--jobs N] [--rounds N] [--json FILE] [--list]
// Each case runs Millrace and its peer alternately, every measurement in a fresh process; the table shows
// medians, the median ratio of the rounds with its spread, and whether the bar of performance.md is met.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { choose, engines, titleOf } from './cases/index.mjs'
import { measure } from './measure.mjs'
import { describeSetup, installPeers } from './setup.mjs'
import { summarize } from './statistics.mjs'
import { figure, table } from './table.mjs'

const fewestRounds = 5

const options = readArguments()
const chosen = choose(options)
if (chosen.length === 0) quit(`No case matches. See: npm run bench -- --list`)
if (options.list) {
  for (const one of chosen) console.log(`${one.engine}: ${titleOf(one)}`)
  process.exit(0)
}

installPeers()
// Inside the checkout, because a temporary folder may be a file system in memory, where nothing is durable.
const home = makeHome()
process.on('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))

for (const line of describeSetup(home)) console.log(line)
console.log(`rounds    ${options.rounds}${options.rounds < fewestRounds ? ', too few to be a result' : ''}\n`)

const rows = []
for (const one of chosen) {
  try {
    rows.push(...(await runCase(one)))
  } catch (error) {
    process.stderr.write(`bench: ${one.engine}: ${titleOf(one)}: ${error.message}\n`)
    process.exitCode = 1
  }
  // After each case, so that a run which is cut short leaves what it has.
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`)
}
console.log(table(rows))

async function runCase(one) {
  const shared = mkdtempSync(join(home, 'case-'))
  const side = (spec) => measure({ ...spec, options: { jobs: one.jobs, shared, ...spec.options } }, home)
  try {
    for (const spec of one.prepare?.(one.jobs) ?? []) await side(spec)
    const answers = []
    const rounds = Math.min(options.rounds, one.rounds ?? options.rounds)
    for (let round = 1; round <= rounds; round++) {
      answers.push(await oneRound(one, side, round))
      report(one, answers, rounds)
    }
    return one.figures.map((wanted) => toRow(one, wanted, answers))
  } finally {
    rmSync(shared, { recursive: true, force: true })
  }
}

/** Who goes first changes with every round, so that a drift of the machine favours nobody. */
async function oneRound({ millrace, peer }, side, round) {
  if (peer === undefined) return { millrace: await side(millrace) }
  if (round % 2 === 0) {
    const other = await side(peer)
    return { millrace: await side(millrace), peer: other }
  }
  return { millrace: await side(millrace), peer: await side(peer) }
}

function toRow(one, wanted, answers) {
  const rounds = answers.map((answer) => ({
    millrace: answer.millrace[wanted.value],
    peer: wanted.peerValue === undefined ? answer.peer?.[wanted.value] : answer.millrace[wanted.peerValue],
  }))
  const { millrace, peer, ratio, ...rest } = summarize(rounds, wanted.bar)
  return {
    engine: one.engine,
    case: wanted.label === undefined ? one.name : `${one.name}: ${wanted.label}`,
    millrace,
    peer,
    peerName: one.peerName ?? null,
    unit: wanted.unit,
    ratio,
    jobs: one.jobs,
    ...rest,
  }
}

function report(one, answers, rounds) {
  const figures = one.figures.map((wanted) => {
    const row = toRow(one, wanted, answers.slice(-1))
    return row.ratio === null ? `${figure(row.millrace)} ${row.unit}` : `ratio ${figure(row.ratio)}`
  })
  const progress = `round ${answers.length} of ${rounds}: ${figures.join(', ')}`
  process.stderr.write(`bench: ${one.engine}: ${titleOf(one)}, ${progress}\n`)
}

function makeHome() {
  const folder = fileURLToPath(new URL('../tmp/', import.meta.url))
  mkdirSync(folder, { recursive: true })
  return mkdtempSync(join(folder, 'bench-'))
}

function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        engine: { type: 'string', multiple: true },
        case: { type: 'string', multiple: true },
        jobs: { type: 'string' },
        rounds: { type: 'string' },
        json: { type: 'string' },
        list: { type: 'boolean' },
      },
    })
    for (const engine of values.engine ?? []) {
      if (!engines.includes(engine)) quit(`There is no engine '${engine}'. Engines: ${engines.join(', ')}.`)
    }
    return {
      ...values,
      named: values.case,
      jobs: count(values.jobs, '--jobs'),
      rounds: count(values.rounds, '--rounds') ?? fewestRounds,
    }
  } catch (error) {
    return quit(error.message)
  }
}

function count(text, flag) {
  if (text === undefined) return undefined
  const number = Number(text.replaceAll('_', ''))
  if (!Number.isInteger(number) || number < 1)
    quit(`${flag} needs a whole number of at least 1, not '${text}'.`)
  return number
}

function quit(message) {
  process.stderr.write(`bench: ${message}\n`)
  process.exit(2)
}
