/** A short run of the chaos harness, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import { shortRun, sum } from '../chaos/short-run.js'
import { notOurs } from './postgres.js'

const kills = 8
const killed = ['settle-sent', 'server-kill', 'pooler-workers']
const interrupted = ['backends', 'net-black-hole', 'outage']
const stale = ['zombie']

test.skipIf(notOurs)(
  'processes, servers and networks fail (of our own only: they are killed), and nothing is lost or run twice',
  async () => {
    const faults = [...stale, ...killed, ...interrupted]
    const { code, output, rows } = await shortRun('postgres', faults, { kills, outage: 2 })
    expect(code, output).toBe(0)
    expect(rows.map((row) => row.fault)).toEqual(faults)
    expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
    expect(sum(rows, 'acked')).toBeGreaterThan(0)
    expect(sum(rows, 'lost')).toBe(0)
    expect(sum(rows, 'rerun')).toBe(0)
    expect(sum(rows, 'interrupted')).toBeGreaterThan(0)
    expect(sum(rows, 'resumed')).toBe(sum(rows, 'interrupted'))
    for (const row of rows)
      expect(row).toMatchObject({ engine: 'postgres', violations: [], refusedStale: row.staleAttempts })
    for (const row of rows.filter(({ fault }) => stale.includes(fault)))
      expect(row.staleAttempts).toBeGreaterThan(0)
  },
  180_000,
)
