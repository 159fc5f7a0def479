import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Millrace, type StateCounts } from 'millrace'
import { expect, test } from 'vitest'
import { runExample, startExample, temporaryFolder } from './process.js'

const statusLine = /^\d\d:\d\d {2}pending \d+ .* completed [1-9]\d* .* jobs\/s$/m

test('started again, it goes on where it was', { timeout: 90_000 }, async () => {
  const file = join(await temporaryFolder(), 'new', 'shop.db')
  const args = ['--file', file, '--duration', '3s', '--rate', '20']

  const first = await runExample('shop/main', args)
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(first.stdout).toContain(`${file}: nothing is waiting`)
  expect(first.stdout).toMatch(statusLine)
  const [, left] = /^closed: 0 running, ([\d,]+) jobs wait for the next start$/m.exec(first.stdout) ?? []
  expect(left).toBeDefined()

  const second = await runExample('shop/main', args)
  expect(second).toMatchObject({ code: 0, stderr: '' })
  expect(second.stdout).toContain(`${file}: goes on where it was: ${left} jobs are waiting`)
})

test('SIGINT drains: running jobs end, nothing stays behind', { timeout: 60_000 }, async () => {
  const file = join(await temporaryFolder(), 'shop.db')
  const shop = startExample('shop/main', ['--file', file, '--rate', '20'])
  await shop.until(statusLine)
  shop.signal('SIGINT')
  const { code, signal, stdout, stderr } = await shop.ended
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
  expect(stdout).toMatch(/^closed: 0 running/m)
  const { states, totals } = await readStats(file)
  expect(states.running).toBe(0)
  expect(totals.completed).toBeGreaterThan(0)
  expect(sum(states)).toBe(totals.enqueued)
})

test('a second SIGINT gives back what runs instead of waiting for it', { timeout: 60_000 }, async () => {
  const file = join(await temporaryFolder(), 'shop.db')
  await orderLongReport(file)
  const shop = startExample('shop/main', ['--file', file, '--rate', '20'])
  await shop.until(/running [1-9]/)
  shop.signal('SIGINT')
  // One line at once and one each second: by the third, the next signal is no echo of the first.
  await shop.until(/(.*draining: [1-9]\d* running\n){3}/)
  shop.signal('SIGINT')
  const asked = performance.now()
  const { code, stdout } = await shop.ended
  expect(code).toBe(0)
  expect(performance.now() - asked).toBeLessThan(2_000)
  expect(stdout).toMatch(/^closed: 0 running/m)
  const { states, totals } = await readStats(file)
  expect(states.running).toBe(0)
  expect(sum(states)).toBe(totals.enqueued)
})

test('two shops share one file', { timeout: 60_000 }, async () => {
  const file = join(await temporaryFolder(), 'shop.db')
  const args = ['--file', file, '--duration', '2s', '--rate', '10']
  const one = startExample('shop/main', args)
  await sleep(200)
  const ends = await Promise.all([one.ended, runExample('shop/main', args)])
  for (const end of ends) expect(end).toMatchObject({ code: 0, stderr: '' })
  const { states, totals } = await readStats(file)
  expect(states.running).toBe(0)
  expect(sum(states)).toBe(totals.enqueued)
})

/** A minute of work, as the shop's own definition does it. */
async function orderLongReport(file: string): Promise<void> {
  const mill = new Millrace({ store: `sqlite:${file}` })
  const report = defineJob({
    name: 'build-report',
    queue: 'reports',
    run: (_: { title: string; steps: number }) => null,
  })
  await mill.enqueue(report, { title: 'every sale there ever was', steps: 600 })
  await mill.close()
}

async function readStats(file: string) {
  const mill = new Millrace({ store: `sqlite:${file}` })
  const stats = await mill.stats()
  await mill.close()
  return stats
}

function sum(states: StateCounts): number {
  return Object.values(states).reduce((total, n) => total + n, 0)
}
