/** A short run of chaos around an outbox, so that neither it nor what it proves can rot. The whole: npm run chaos. */
import { expect, test } from 'vitest'
import { shortRun, sum } from '../chaos/short-run.js'

const kills = 4
const killed = ['relay-settle', 'writer']
const stale = ['relay-frozen']

test('relays and writers are killed and frozen; what arrives is what was committed, in order, and nothing else', async () => {
  const { code, output, rows } = await shortRun('outbox-sqlite', [...killed, ...stale], { kills })
  expect(code, output).toBe(0)
  expect(rows.map((row) => row.fault)).toEqual([...killed, ...stale])
  expect(sum(rows, 'kills')).toBeGreaterThanOrEqual(kills)
  expect(sum(rows, 'lost')).toBe(0)
  expect(sum(rows, 'rerun')).toBe(0)
  for (const row of rows) {
    expect(row).toMatchObject({ engine: 'outbox-sqlite', violations: [], refusedStale: row.staleAttempts })
    expect(row.acked).toBeGreaterThan(0)
  }
  for (const row of rows.filter(({ fault }) => stale.includes(fault)))
    expect(row.staleAttempts).toBeGreaterThan(0)
}, 120_000)
