// npm run bench [-- --engine NAME] [--case TEXT] [--jobs N] [--seconds N] [--rounds N] [--json FILE]
//               [--only millrace|peer] [--list] [--help]
// Each case runs Millrace and its peer alternately, every measurement in a fresh process; the table shows
// medians, the median ratio of the rounds with its spread, and whether the bar of its case is met.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { choose, engines, titleOf } from './cases/index.mjs'
import { measure } from './measure.mjs'
import { openServers } from './servers.mjs'
import { describeSetup, installPeers } from './setup.mjs'
import { summarize } from './statistics.mjs'
import { figure, table } from './table.mjs'

const fewestRounds = 5
const usage = `npm run bench -- [options]
  --engine NAME     only cases of this engine (${engines.join(', ')}); may be repeated
  --case TEXT       only cases whose title contains this; may be repeated
  --jobs N          instead of the number of jobs that each case has
  --seconds N       instead of the time of the cases that run for one
  --rounds N        instead of ${fewestRounds}
  --json FILE       writes the rows there, after each case
  --only SIDE       runs one side alone, 'millrace' or 'peer', to tune it: figures without ratios
  --list            shows the cases that were chosen
  --help            shows this`

const options = readArguments()
const chosen = choose(options).filter((one) => options.only !== 'peer' || one.peer !== undefined)
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

const servers = await openServers(chosen.map((one) => one.server))
try {
  for (const line of describeSetup(home, servers)) console.log(line)
  console.log(
    `rounds    ${options.rounds}${options.rounds < fewestRounds ? ', too few to be a result' : ''}\n`,
  )
  await runAll()
} finally {
  for (const server of servers.values()) await server.close()
}

async function runAll() {
  const rows = []
  let failed = 0
  for (const one of chosen) {
    try {
      rows.push(...(await runCase(one)))
    } catch (error) {
      failed++
      rows.push(...one.figures.map((wanted) => failedRow(one, wanted, error)))
      process.stderr.write(`bench: ${one.engine}: ${titleOf(one)}: FAILED: ${error.message}\n`)
    }
    // After each case, so that a run which is cut short leaves what it has.
    if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`)
  }
  console.log(table(rows))
  if (failed === 0) return
  console.log(`\n${failed} of ${chosen.length} cases failed; see above`)
  process.exitCode = 1
}

async function runCase(one) {
  const shared = mkdtempSync(join(home, 'case-'))
  const { jobs, seconds } = one
  const side = (spec) => run(one, { ...spec, options: { jobs, seconds, shared, ...spec.options } })
  try {
    for (const spec of one.prepare?.(jobs) ?? []) await side(spec)
    const answers = []
    const rounds = Math.min(options.rounds, one.rounds ?? options.rounds)
    for (let round = 1; round <= rounds; round++) {
      answers.push(await oneRound(one, side, round))
      report(one, answers, rounds)
    }
    return one.figures.map((wanted) => toRow(one, wanted, answers))
  } finally {
    rmSync(shared, { recursive: true, force: true })
    await servers.get(one.server)?.dropKept()
  }
}

/** On a server a measurement has a place of its own, with files a folder. */
function run(one, spec) {
  const server = servers.get(one.server)
  if (server === undefined) return measure(spec, home)
  const { from, keep, ...rest } = spec
  return server.use({ from, keep, shared: rest.options.shared }, (url) =>
    measure({ ...rest, node: server.node, options: { ...rest.options, url } }, home),
  )
}

/** Who goes first changes with every round, so that a drift of the machine favours nobody. */
async function oneRound({ millrace, peer }, side, round) {
  if (options.only === 'peer') return { peer: await side(peer) }
  if (options.only === 'millrace' || peer === undefined) return { millrace: await side(millrace) }
  if (round % 2 === 0) {
    const other = await side(peer)
    return { millrace: await side(millrace), peer: other }
  }
  return { millrace: await side(millrace), peer: await side(peer) }
}

function toRow(one, wanted, answers) {
  const rounds = answers.map((answer) => ({
    millrace: answer.millrace?.[wanted.value],
    peer: wanted.peerValue === undefined ? answer.peer?.[wanted.value] : answer.millrace?.[wanted.peerValue],
  }))
  return asRow(one, wanted, summarize(rounds, wanted.bar))
}

function failedRow(one, wanted, error) {
  return {
    ...asRow(one, wanted, summarize([], wanted.bar)),
    met: false,
    problem: error.message.split('\n')[0],
  }
}

function asRow(one, wanted, { millrace, peer, ratio, ...rest }) {
  return {
    engine: one.engine,
    case: wanted.label === undefined ? one.name : `${one.name}: ${wanted.label}`,
    millrace,
    peer,
    peerName: one.peerName ?? null,
    unit: wanted.unit,
    ratio,
    jobs: one.jobs,
    ...(one.seconds === undefined ? {} : { seconds: one.seconds }),
    ...rest,
  }
}

function report(one, answers, rounds) {
  const figures = one.figures.map((wanted) => {
    const row = toRow(one, wanted, answers.slice(-1))
    return row.ratio === null
      ? `${figure(row.millrace ?? row.peer)} ${row.unit}`
      : `ratio ${figure(row.ratio)}`
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
        seconds: { type: 'string' },
        rounds: { type: 'string' },
        json: { type: 'string' },
        only: { type: 'string' },
        list: { type: 'boolean' },
        help: { type: 'boolean' },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    for (const engine of values.engine ?? []) {
      if (!engines.includes(engine)) quit(`There is no engine '${engine}'. Engines: ${engines.join(', ')}.`)
    }
    if (values.only !== undefined && !['millrace', 'peer'].includes(values.only))
      quit(`--only needs 'millrace' or 'peer', not '${values.only}'.`)
    return {
      ...values,
      named: values.case,
      jobs: count(values.jobs, '--jobs'),
      seconds: count(values.seconds, '--seconds'),
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
