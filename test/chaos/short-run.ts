/** A short run of the harness inside the tests, as somebody in a terminal would start it. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Row } from './row.js'

// The processes under attack run the package as users get it, from dist/.
const main = fileURLToPath(new URL('../../.build/test/chaos/main.js', import.meta.url))

export async function shortRun(
  engine: string,
  faults: readonly string[],
  options: Readonly<Record<string, number>>,
): Promise<{ code: number | null; output: string; rows: Row[] }> {
  if (!existsSync(main)) throw new Error(`${main} is missing; build it first: npm run build`)
  const folder = mkdtempSync(join(tmpdir(), 'millrace-chaos-test-'))
  const json = join(folder, 'rows.json')
  const only = faults.flatMap((fault) => ['--only', fault])
  const others = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const child = spawn(process.execPath, [main, '--engine', engine, '--json', json, ...others, ...only])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  const rows = existsSync(json) ? (JSON.parse(readFileSync(json, 'utf8')) as Row[]) : []
  rmSync(folder, { recursive: true })
  return { code, output, rows }
}

export function sum(
  rows: readonly Row[],
  key: 'kills' | 'acked' | 'lost' | 'rerun' | 'resumed' | 'interrupted',
): number {
  return rows.reduce((total, row) => total + row[key], 0)
}
