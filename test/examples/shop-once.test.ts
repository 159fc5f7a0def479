import { Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { Ledger } from '../../examples/shop/ledger.js'
import { runExample } from './process.js'

test('--once --json prints one summary in which nothing is lost', { timeout: 90_000 }, async () => {
  const { code, stdout } = await runExample('shop/main', ['--once', '--json'])
  expect(code).toBe(0)
  expect(stdout.trimEnd().split('\n')).toHaveLength(1)
  const summary: Record<string, number> = JSON.parse(stdout)
  const { enqueued = 0, completed = 0, dead = 0, cancelled = 0 } = summary
  expect(summary).toMatchObject({ engine: 'sqlite', orders: 500, lost: 0 })
  expect(enqueued).toBeGreaterThan(1900)
  expect(summary.retried).toBeGreaterThan(0)
  expect(dead).toBeGreaterThan(0)
  expect(cancelled).toBeGreaterThan(0)
  expect(completed + dead + cancelled).toBe(enqueued)
})

test('the ledger notices a job that the store does not know', async () => {
  const mill = new Millrace({ store: 'memory:' })
  const ledger = new Ledger()
  ledger.acknowledged(['never-stored'])
  expect(await ledger.audit(mill)).toEqual({ enqueued: 1, lost: 1, states: {} })
  await mill.close()
})

test('wrong arguments get a sentence and exit code 2', async () => {
  const { code, stderr } = await runExample('shop/main', ['--rate', 'fast'])
  expect(code).toBe(2)
  expect(stderr).toContain("--rate is 'fast'; expected orders per second")
})

test('--help tells the options', async () => {
  const { code, stdout } = await runExample('shop/main', ['--help'])
  expect(code).toBe(0)
  expect(stdout).toContain('--duration')
})
