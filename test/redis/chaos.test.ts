/** A short run of the chaos harness, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import type { Row } from '../chaos/row.js'
import { shortRun, sum } from '../chaos/short-run.js'

const notOurs = Boolean(process.env.MILLRACE_REDIS_URL)

test.skipIf(notOurs)(
  'processes, servers and networks fail (of our own only: they are killed), and nothing is lost or run twice',
  async () => {
    const kills = 8
    const lossy = 'everysec-crash'
    const faults = [
      'settle-sent',
      'zombie',
      'server-kill',
      lossy,
      'client-kill',
      'out-of-memory',
      'net-black-hole',
      'outage',
    ]
    const { code, output, rows } = await shortRun('redis', faults, { kills, outage: 2 })
    expect(code, output).toBe(0)
    expect(rows.map((row) => row.fault)).toEqual(faults)
    expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
    expectSafe(rows.filter(({ fault }) => fault !== lossy))
    expect(rows.find(({ fault }) => fault === lossy)?.lost).toBeGreaterThan(0)
    expect(rows.find(({ fault }) => fault === 'zombie')?.staleAttempts).toBeGreaterThan(0)
  },
  180_000,
)

test('a cluster loses a master, and nothing that its replica was waited for', async () => {
  const { code, output, rows } = await shortRun('redis-cluster', ['master-kill', 'slot-move'], { kills: 1 })
  expect(code, output).toBe(0)
  expect(sum(rows, 'kills')).toBe(1)
  expectSafe(rows)
}, 120_000)

function expectSafe(rows: readonly Row[]): void {
  expect(sum(rows, 'acked')).toBeGreaterThan(0)
  expect(sum(rows, 'lost')).toBe(0)
  expect(sum(rows, 'rerun')).toBe(0)
  expect(sum(rows, 'interrupted')).toBeGreaterThan(0)
  expect(sum(rows, 'resumed')).toBe(sum(rows, 'interrupted'))
  for (const row of rows) expect(row).toMatchObject({ violations: [], refusedStale: row.staleAttempts })
}
