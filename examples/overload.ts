// More work comes in than can be done: the low lanes give way, the critical one goes on.
import { defineJob, Millrace, QueueFullError } from 'millrace'

const work = defineJob({ name: 'work', queue: 'mail', run: () => {} })

const mill = new Millrace({
  store: 'memory:',
  jobs: [work],
  // Low jobs give way when the queue is half full, default ones at three quarters, high ones at nine tenths.
  queues: { mail: { depth: { max: 100, overflow: 'shed' } } },
})
const shed = { low: 0, default: 0, high: 0, critical: 0 }
mill.on('shed', ({ priority }) => shed[priority]++)

// Nobody works, and everybody wants something.
for (const priority of ['low', 'default', 'high'] as const) {
  const jobs = await mill.enqueueMany(work, many(60), { priority })
  const taken = jobs.filter(({ status }) => status === 'inserted').length
  console.log(`${priority}: ${taken} of 60 taken, ${shed[priority]} shed`)
}
const critical = await mill.enqueueMany(work, many(10), { priority: 'critical' })
console.log(`critical: ${critical.filter(({ status }) => status === 'inserted').length} of 10 taken`)

const worker = mill.worker()
await worker.start()
await mill.queue('mail').drain()
const { totals } = await mill.stats()
console.log(`${totals.completed} done, ${totals.shed} shed`)
await worker.stop()

// Put off instead of dropped.
await mill.queue('mail').depthLimit({ max: 10, overflow: 'shed', defer: '1h' })
const report = await mill.enqueueMany(work, many(8), { priority: 'low' })
console.log(`${report.filter(({ status }) => status === 'deferred').length} of 8 put off for an hour`)

// Or refused, so that the caller can answer 429; or waited for, with `overflow: 'wait'` and a signal.
await mill.queue('mail').depthLimit({ max: 5, overflow: 'reject' })
try {
  await mill.enqueue(work, 0)
} catch (error) {
  if (!(error instanceof QueueFullError)) throw error
  console.log(
    `429, Retry-After: ${Math.ceil(error.retryAfter / 1000)}: ${error.depth} jobs wait in '${error.queue}'`,
  )
}
await mill.close()

function many(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n)
}
