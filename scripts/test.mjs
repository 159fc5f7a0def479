// npm test [-- --engine NAME]... [vitest arguments]
// The last line on stdout is always "N passed, M failed" (", K skipped" when some were).
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engines } from './engines.mjs'

const { chosen, rest } = parse(process.argv.slice(2))
const folder = mkdtempSync(join(tmpdir(), 'millrace-test-'))
const report = join(folder, 'report.json')

const code = await vitest([
  'run',
  ...['unit', 'examples', 'brokers', ...chosen].map((name) => `--project=${name}`),
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${report}`,
  ...rest,
])
const { passed, failed, skipped } = count(report)
rmSync(folder, { recursive: true, force: true })

if (code !== 0 && failed === 0) console.error(`vitest exited with ${code} although no test failed; see above`)
if (passed + failed === 0) console.error('no test ran')
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = code !== 0 || failed > 0 || passed + failed === 0 ? 1 : 0

function parse(args) {
  const named = []
  const rest = []
  for (let i = 0; i < args.length; i++) {
    const [flag, value] = args[i].split('=', 2)
    if (flag === '--engine') named.push(value ?? args[++i])
    else rest.push(args[i])
  }
  for (const name of named) {
    if (engines.includes(name)) continue
    const problem = name ? `There is no engine '${name}'` : '--engine needs a name'
    console.error(`${problem}. Engines: ${engines.join(', ')}. Example: npm test -- --engine ${engines[0]}`)
    process.exit(2)
  }
  return { chosen: named.length === 0 ? engines : [...new Set(named)], rest }
}

function vitest(args) {
  // Vitest colours its output whenever CI is set; logs are easier to read and search without.
  const env = process.stdout.isTTY ? process.env : { ...process.env, NO_COLOR: '1' }
  return new Promise((resolve) => {
    spawn(process.execPath, ['node_modules/vitest/vitest.mjs', ...args], { stdio: 'inherit', env }).on(
      'close',
      resolve,
    )
  })
}

function count(path) {
  const totals = { passed: 0, failed: 0, skipped: 0 }
  for (const file of readReport(path)) {
    const statuses = file.assertionResults.map((test) => test.status)
    const failures = statuses.filter((status) => status === 'failed').length
    // A file that fails outside its tests (import error, hook) is one failure.
    totals.failed += file.status === 'failed' ? Math.max(failures, 1) : failures
    totals.passed += statuses.filter((status) => status === 'passed').length
    totals.skipped += statuses.filter((status) => status !== 'passed' && status !== 'failed').length
  }
  return totals
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).testResults
  } catch {
    return [] // Vitest died before it wrote one; its exit code tells.
  }
}
