// Every check of the repository, in one command. Shows the output of a step only when it fails.
import { spawn } from 'node:child_process'

const GENERATORS = ['scripts/embed-sql.mjs', 'scripts/state-machine.mjs']

const bin = (path, ...args) => [`node_modules/${path}`, ...args]
const steps = [
  ['format and lint', bin('@biomejs/biome/bin/biome', 'ci', '--colors=off')],
  ['types', bin('typescript/bin/tsc', '-b', '--pretty', 'false')],
  ...GENERATORS.map((script) => [script, [script, '--check']]),
  ['unused code', bin('knip/bin/knip.js', '--no-progress')],
  ['public API reports', ['scripts/api-report.mjs']],
  ['package contents', bin('publint/src/cli.js', '--strict')],
  ['type resolution', bin('@arethetypeswrong/cli/dist/index.js', '--pack', '.', '--profile', 'esm-only')],
]

const results = []
for (const [name, args] of steps) {
  const started = performance.now()
  const { code, output } = await run(args)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  results.push({ name, ok: code === 0 })
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`)
  if (code !== 0) console.log(output.trimEnd().replace(/^/gm, '     '))
}

const failed = results.filter((result) => !result.ok)
console.log(
  failed.length === 0
    ? `check: all ${results.length} steps passed`
    : `check: ${failed.length} of ${results.length} steps failed: ${failed.map((step) => step.name).join(', ')}`,
)
process.exitCode = failed.length === 0 ? 0 : 1

function run(args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text))
    child.on('close', (code) => resolve({ code, output }))
  })
}
