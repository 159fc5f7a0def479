import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Measurement, measure } from '../../bench/measure.mjs'
import { atLeast, atMost, median, meets, percentile, summarize } from '../../bench/statistics.mjs'
import { figure, table } from '../../bench/table.mjs'
import { pragmas } from '../../bench/workload.mjs'

describe('statistics of the benchmark', () => {
  test('median', () => {
    expect(median([3, 1, 2])).toBe(2)
    expect(median([4, 1, 3, 2])).toBe(2.5)
    expect(median([7])).toBe(7)
    expect(() => median([])).toThrow('no values')
  })

  test('percentile', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i)
    expect(percentile(values, 0.5)).toBe(50)
    expect(percentile(values, 0.99)).toBe(99)
    expect(percentile([5], 0.99)).toBe(5)
  })

  test('a bar is met on its side, and exactly on it', () => {
    expect([3.9, 4, 4.1].map((ratio) => meets(ratio, atLeast(4)))).toEqual([false, true, true])
    expect([1.1, 1.2, 1.3].map((ratio) => meets(ratio, atMost(1.2)))).toEqual([true, true, false])
  })

  test('the ratio is Millrace by peer, paired inside the rounds', () => {
    const rounds = [
      { millrace: 100, peer: 50 },
      { millrace: 400, peer: 100 },
      { millrace: 90, peer: 30 },
    ]
    expect(summarize(rounds, atLeast(3, 6))).toEqual({
      millrace: 100,
      peer: 50,
      ratio: 3,
      rounds: 3,
      spread: [2, 4],
      bar: '≥ 3',
      goal: 6,
      met: true,
    })
    expect(summarize(rounds, atMost(2))).toMatchObject({ ratio: 3, bar: '≤ 2', goal: null, met: false })
  })

  test('without rounds there are no figures', () => {
    expect(summarize([], atLeast(4))).toMatchObject({ millrace: null, peer: null, ratio: null, met: null })
  })

  test('Millrace alone has figures and no verdict', () => {
    expect(summarize([{ millrace: 2 }, { millrace: 4 }])).toEqual({
      millrace: 3,
      peer: null,
      ratio: null,
      rounds: 2,
      spread: null,
      bar: null,
      goal: null,
      met: null,
    })
  })
})

describe('table of the benchmark', () => {
  test('figures have three digits that matter', () => {
    expect([0.12345, 1, 12.345, 999.9, 1234.5, 1234567].map(figure)).toEqual([
      '0.123',
      '1',
      '12.3',
      '1000',
      '1,235',
      '1,234,567',
    ])
  })

  test('one line for each row, with verdicts', () => {
    const row = { engine: 'sqlite', case: 'process', peerName: 'peer', unit: 'jobs/s' }
    const rounds = [{ millrace: 8000, peer: 1000 }]
    const text = table([
      { ...row, ...summarize(rounds, atLeast(4, 6)) },
      { ...row, ...summarize(rounds, atLeast(9)) },
      { ...row, ...summarize([{ millrace: 5 }]), peerName: null },
      { ...row, ...summarize([], atLeast(4)), met: false, problem: 'no engine' },
    ])
    const lines = text.split('\n')
    expect(lines).toHaveLength(6)
    expect(lines[2]).toMatch(/process\s+8,000\s+peer\s+1,000\s+jobs\/s\s+8\s+8–8\s+≥ 4\s+6\s+yes$/)
    expect(lines[3]).toMatch(/≥ 9\s+NO$/)
    expect(lines[4]).toMatch(/process\s+5\s+jobs\/s$/)
    expect(lines[5]).toMatch(/process\s+peer\s+jobs\/s\s+≥ 4\s+FAILED$/)
  })
})

test('the peers get the settings of SQLite that Millrace has', () => {
  const source = readFileSync('src/databases/sqlite/connection.ts', 'utf8')
  for (const [name, value] of Object.entries(pragmas)) expect(source).toContain(`'${name} = ${value}'`)
})

const built = existsSync('dist/index.js')

describe.skipIf(!built)('measurements of Millrace in a process of their own (they need the build)', () => {
  let home: string
  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
  })
  afterAll(() => rmSync(home, { recursive: true, force: true }))

  const millrace = (name: string, options: Record<string, unknown>, rest: Partial<Measurement> = {}) =>
    measure({ module: './millrace.mjs', measure: name, options: { shared: home, ...options }, ...rest }, home)

  test.each(['memory', 'sqlite'])('process, enqueue and run on %s', async (engine) => {
    for (const name of ['processJobs', 'enqueueJobs', 'runJobs']) {
      const { rate } = await millrace(name, { engine, jobs: 1_000, synchronous: 'normal' })
      expect(rate).toBeGreaterThan(0)
    }
  })

  test('claims from a copy of a file that was filled before', async () => {
    const options = { engine: 'sqlite', waiting: 1_000, scheduled: 100, finished: 100 }
    await millrace('prefill', options, { keep: 'some' })
    for (let round = 0; round < 2; round++) {
      const { cost } = await millrace('claims', { engine: 'sqlite', exchanges: 30 }, { from: 'some' })
      expect(cost).toBeGreaterThan(0)
    }
  })

  test('a worker that always has something to do', async () => {
    const { rate, last } = await millrace('steadily', { engine: 'sqlite', jobs: 500, seconds: 1 })
    expect(rate).toBeGreaterThan(0)
    expect(last).toBeGreaterThan(0)
  })

  test('latency in one process and in two', async () => {
    for (const apart of [false, true]) {
      const { p50, p99 } = await millrace('latency', { engine: 'sqlite', jobs: 3, pause: 10, apart })
      expect(p50).toBeGreaterThan(0)
      expect(p99).toBeGreaterThanOrEqual(p50 as number)
    }
  })

  test('memory', async () => {
    const answer = await millrace('memory', { engine: 'sqlite', jobs: 2_000 }, { flags: ['--expose-gc'] })
    expect(answer.heap).toBeGreaterThan(1)
    expect(answer.rss).toBeGreaterThan(answer.heap as number)
  })

  test('a measurement that fails says so', async () => {
    await expect(millrace('claims', { engine: 'absent' })).rejects.toThrow("no engine 'absent'")
  })
})
