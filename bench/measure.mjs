// The parent's side of child.mjs: a fresh process and a fresh folder for each measurement, so that neither
// compiled code nor heap nor files of one side disturb the other.
import { fork } from 'node:child_process'
import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const child = fileURLToPath(new URL('child.mjs', import.meta.url))

/**
 * Runs `spec.measure` of `spec.module` and resolves with what it returned. Its folder starts as a copy of the one
 * kept as `spec.from` in `options.shared`, or empty; it is kept there as `spec.keep`, or removed.
 */
export async function measure({ from, keep, ...spec }, home) {
  const folder = mkdtempSync(join(home, 'run-'))
  const kept = (name) => join(spec.options.shared, name)
  try {
    if (from !== undefined) cpSync(kept(from), folder, { recursive: true })
    const answer = await run({ ...spec, options: { ...spec.options, folder } })
    if (keep !== undefined) renameSync(folder, kept(keep))
    return answer
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function run({ module, measure, options, flags = [], node = process.execPath }) {
  return new Promise((resolve, reject) => {
    const running = fork(child, [JSON.stringify({ module, measure, options })], {
      execPath: node,
      // Nothing that was meant for this process: a loader of a test runner would slow one side down.
      execArgv: flags,
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 2, 2, 'ipc'],
    })
    let told = {}
    running.on('message', (message) => {
      told = message
    })
    running.on('error', reject)
    running.on('close', (code, signal) => {
      if (told.answer !== undefined) return resolve(told.answer)
      const problem = told.problem ?? `it ended with ${signal ?? `code ${code}`}`
      reject(new Error(`${measure} of ${module}: ${problem}`))
    })
  })
}
