import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { palette } from '../../examples/shop/format.js'
import { draw, type Picture } from '../../examples/shop/view.js'
import { exampleFile, Running, temporaryFolder } from './process.js'

const enter = '\x1b[?1049h\x1b[?25l'
const leave = '\x1b[?25h\x1b[?1049l'

// util-linux; the one of the BSDs takes other arguments.
const hasScript = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0

test.skipIf(!hasScript)(
  'draws on a terminal, drains on Ctrl-C and gives the terminal back',
  { timeout: 60_000 },
  async () => {
    const shop = await startInTerminal('--rate 20')
    await shop.until(/resize-image +[1-9]/)
    shop.type('\x03')
    await shop.until(/draining: \d+ running/)
    const { code, stdout } = await shop.ended
    expect(code).toBe(0)
    expect(stdout.startsWith(enter)).toBe(true)
    // The terminal itself writes ^C where the cursor stands; the next frame goes over it.
    const [frames = '', farewell = ''] = stdout.replaceAll('^C', '').split(leave)
    expect(farewell).toContain('closed: 0 running')
    const last = stripVTControlCharacters(frames.split('\x1b[H').at(-1) ?? '').split(/\r+\n/)
    for (const word of [
      'MILLRACE SHOP',
      'THROUGHPUT',
      'charge-payment',
      'critical',
      'REPORTS',
      'LAST FAILURES',
    ]) {
      expect(last.some((line) => line.includes(word))).toBe(true)
    }
    expect(last.length).toBeLessThanOrEqual(24)
    for (const line of last) expect(line.length).toBeLessThan(80)
  },
)

test.skipIf(!hasScript)('gives the terminal back when it ends by itself', { timeout: 60_000 }, async () => {
  const { code, stdout } = await (await startInTerminal('--duration 1s')).ended
  expect(code).toBe(0)
  expect(stdout.split(enter)).toHaveLength(2)
  expect(stdout.split(leave)).toHaveLength(2)
})

async function startInTerminal(args: string): Promise<Running> {
  const file = join(await temporaryFolder(), 'shop.db')
  // exec: some shells stay, take the Ctrl-C themselves and answer 130 for a shop that ended with 0.
  const command = `stty cols 80 rows 24; exec ${process.execPath} ${exampleFile('shop/main')} --file ${file} ${args}`
  return new Running('script', ['-qec', command, '/dev/null'])
}

test.for([
  [80, 24],
  [60, 15],
  [200, 60],
  [20, 5],
])('a frame fits into %i x %i', async ([columns, rows]) => {
  const lines = draw(await busyPicture(), columns as number, rows as number, palette(true))
  expect(lines.length).toBeLessThanOrEqual(rows as number)
  for (const line of lines) expect(stripVTControlCharacters(line).length).toBeLessThan(columns as number)
})

test('a frame without colours has none', async () => {
  const frame = draw(await busyPicture(), 80, 24, palette(false)).join('\n')
  expect(stripVTControlCharacters(frame)).toBe(frame)
})

async function busyPicture(): Promise<Picture> {
  const mill = new Millrace({ store: 'memory:' })
  const stats = await mill.stats()
  await mill.close()
  const times = { p50: 12, p95: 123_456 }
  return {
    file: `/a/long/path/${'x'.repeat(100)}/shop.db`,
    upMs: 36_000_000,
    ordersPerSecond: 1000,
    notice: { text: 'something long to say '.repeat(10), urgent: true },
    stats,
    rate: 12_345.6,
    perSecond: Array.from({ length: 240 }, (_, i) => i * 100),
    times: new Map([['send-mail', { wait: times, run: times }]]),
    reports: [0, 0.5, 1].map((part) => ({ title: 'a report with a long title', part })),
    failures: Array.from({ length: 50 }, (_, i) => ({
      job: 'charge-payment',
      message: 'a message that is far too long for one line of a terminal '.repeat(3),
      count: 10 ** (i % 7),
      fate: i % 2 === 0 ? ('dead' as const) : ('retried' as const),
      lastAt: 0,
    })),
    now: 5_000_000,
  }
}
