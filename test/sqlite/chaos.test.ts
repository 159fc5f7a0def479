/** A short run of the chaos harness, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { Row } from '../chaos/row.js'

// The processes under attack run the package as users get it, from dist/.
const main = fileURLToPath(new URL('../../.build/test/chaos/main.js', import.meta.url))
const kills = 30
const killed = [
  'claimed',
  'mid-handler',
  'settle-sent',
  'retry',
  'step-write',
  'compensation',
  'anywhere',
  'migration',
  'producer',
  'holding-limits',
  'schedule-advance',
  'flows',
  'flow-producer',
]
const stale = ['zombie', 'blocked-loop']
const apart = ['sandbox-abort']

test('processes are killed, frozen and blocked, and nothing is lost, run twice or written by a stale hand', async () => {
  if (!existsSync(main)) throw new Error(`${main} is missing; build it first: npm run build`)
  const { code, output, rows } = await chaos()
  expect(code, output).toBe(0)
  expect(rows.map((row) => row.fault)).toEqual([...killed, ...stale, ...apart])
  expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
  expect(sum(rows, 'acked')).toBeGreaterThan(0)
  expect(sum(rows, 'lost')).toBe(0)
  expect(sum(rows, 'rerun')).toBe(0)
  for (const row of rows)
    expect(row).toMatchObject({ engine: 'sqlite', violations: [], refusedStale: row.staleAttempts })
  for (const row of rows.filter(({ fault }) => stale.includes(fault)))
    expect(row.staleAttempts).toBeGreaterThan(0)
}, 120_000)

async function chaos(): Promise<{ code: number | null; output: string; rows: Row[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-chaos-test-'))
  const json = join(folder, 'rows.json')
  const faults = [...killed, ...stale, ...apart].flatMap((fault) => ['--fault', fault])
  const child = spawn(process.execPath, [main, '--json', json, '--kills', String(kills), ...faults])
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

function sum(rows: readonly Row[], key: 'kills' | 'acked' | 'lost' | 'rerun'): number {
  return rows.reduce((total, row) => total + row[key], 0)
}
