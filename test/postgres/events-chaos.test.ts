/** A short run of chaos around an event store, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import { shortRun, sum } from '../chaos/short-run.js'
import { notOurs } from './postgres.js'

const kills = 5
const killed = ['advanced', 'rebuild-swap', 'server-kill']
const faults = [...killed, 'readers']

test.skipIf(notOurs)(
  'processes and servers fail (of our own only: they are killed), and every reader sees each event once, in order',
  async () => {
    const { code, output, rows } = await shortRun('events-postgres', faults, { kills })
    expect(code, output).toBe(0)
    expect(rows.map((row) => row.fault)).toEqual(faults)
    expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
    expect(sum(rows, 'lost') + sum(rows, 'rerun')).toBe(0)
    for (const row of rows) {
      expect(row).toMatchObject({
        engine: 'events-postgres',
        violations: [],
        refusedStale: row.staleAttempts,
      })
      expect(row.acked).toBeGreaterThan(0)
    }
  },
  180_000,
)
