// Work for this process alone, with nothing stored: a fast source, a service with a limit, rows in batches.
import { setTimeout as sleep } from 'node:timers/promises'
import { isMillraceError } from 'millrace'
import { BatchCollector, LocalQueue } from 'millrace/local'

// Rows are written ten at a time, or after 50 ms. A batch that fails is kept and comes again.
let writes = 0
const written: string[] = []
const table = new BatchCollector<string>({
  size: 10,
  interval: '50ms',
  retry: { attempts: 3, backoff: { type: 'fixed', initialDelay: '10ms' } },
  async flush(rows) {
    if (++writes === 2) throw new Error('the database restarts')
    written.push(...rows)
  },
})

// The service answers four calls at a time and twenty in any tenth of a second.
const prices = new LocalQueue({
  concurrency: 4,
  rate: { max: 20, per: '100ms' },
  highWaterMark: 8,
  async run(product: number, { signal }) {
    await sleep(2, undefined, { signal })
    return `product ${product}: ${100 + product}`
  },
})

const began = performance.now()
let most = 0
let rests = 0
prices.on('full', () => rests++)
for (let product = 1; product <= 45; product++) {
  await prices.ready() // the source goes no faster than the work
  void prices.push(product).then((price) => table.add(price))
  most = Math.max(most, prices.size)
}
console.log('urgent:', await prices.push(46, { priority: 10 }))
await prices.close() // runs what was pushed
await table.close() // flushes what was added
const seconds = (performance.now() - began) / 1000
console.log(`${written.length} rows written, although the second write failed`)
console.log(`never more than ${most} held, a rest when full: ${rests > 0}, within the rate: ${seconds > 0.2}`)

// A display wants the newest: what is too old gives way.
const shown: number[] = []
const display = new LocalQueue({
  overflow: 'dropOldest',
  highWaterMark: 3, // one runs, two wait
  async run(reading: number) {
    await sleep(5)
    shown.push(reading)
  },
})
const readings = Array.from({ length: 10 }, (_, i) => display.push(i + 1))
const outcomes = await Promise.allSettled(readings)
const dropped = outcomes.filter((o) => o.status === 'rejected' && isMillraceError(o.reason, 'DROPPED'))
console.log(`shown ${shown.join(', ')}; dropped ${dropped.length}`)
