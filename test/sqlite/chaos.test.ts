/** A short run of the chaos harness, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import { shortRun, sum } from '../chaos/short-run.js'

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
  const { code, output, rows } = await shortRun('sqlite', [...killed, ...stale, ...apart], { kills })
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
