import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../../.build/test/sqlite/large-flow-process.js', import.meta.url))
const children = 100_000
/** MiB. The inputs, ids and results of all children would not fit twice. */
const heap = 48

for (const how of ['flow', 'steps']) {
  test(`${children} children of a ${how === 'flow' ? 'flow' : 'step'} need no more than ${heap} MiB of heap`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-'))
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [
        `--max-old-space-size=${heap}`,
        script,
        join(folder, 'jobs.db'),
        `${children}`,
        how,
      ])
      expect(JSON.parse(stdout)).toEqual({ total: sumOfSquares(children), left: 0 })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }, 180_000)
}

function sumOfSquares(count: number): number {
  let total = 0
  for (let n = 0; n < count; n++) total += n * n
  return total
}
