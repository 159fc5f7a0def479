/** A short run of chaos around an outbox, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import { shortRun, sum } from '../chaos/short-run.js'
import { notOurs } from './postgres.js'

const kills = 6
const killed = ['relay-delivered', 'stream-delivered', 'writer']
const interrupted = ['server-kill', 'target-kill']
const stale = ['stream-frozen']

test.skipIf(notOurs)(
  'relays, writers and servers are killed and frozen (of our own only); what arrives is what was committed, in order',
  async () => {
    const faults = [...killed, ...stale, ...interrupted]
    const { code, output, rows } = await shortRun('outbox-postgres', faults, { kills })
    expect(code, output).toBe(0)
    expect(rows.map((row) => row.fault).sort()).toEqual([...faults].sort())
    expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
    expect(sum(rows, 'lost')).toBe(0)
    expect(sum(rows, 'interrupted')).toBeGreaterThan(0)
    expect(sum(rows, 'resumed')).toBe(sum(rows, 'interrupted'))
    for (const row of rows) {
      expect(row).toMatchObject({
        engine: 'outbox-postgres',
        violations: [],
        refusedStale: row.staleAttempts,
      })
      expect(row.acked).toBeGreaterThan(0)
    }
    for (const row of rows.filter(({ fault }) => stale.includes(fault)))
      expect(row.staleAttempts).toBeGreaterThan(0)
  },
  180_000,
)
