// More work comes in than can be done: the low lanes give way, the critical one goes on.
import { defineJob, Millrace, QueueFullError } from 'millrace'

const work = defineJob({
  name: 'work',
  queue: 'mail',
  run: () => new Promise<void>((resolve) => setTimeout(resolve, 1)),
})

const mill = new Millrace({
  store: 'memory:',
  jobs: [work],
  // Low jobs give way when the queue is half full, default ones at three quarters, high ones at nine tenths.
  queues: { mail: { depth: { max: 100, overflow: 'shed' } } },
})
const shed = { high: 0, default: 0, low: 0, critical: 0 }
mill.on('shed', ({ priority }) => shed[priority]++)

await mill.worker({ concurrency: 5, queues: ['mail'] }).start()
const taken = { critical: 0, high: 0, default: 0, low: 0 }
for (let wave = 0; wave < 40; wave++) {
  for (const priority of ['low', 'default', 'high', 'critical'] as const) {
    const jobs = await mill.enqueueMany(work, priority === 'critical' ? [wave] : [1, 2, 3, 4, 5, 6], {
      priority,
    })
    taken[priority] += jobs.filter(({ status }) => status === 'inserted').length
  }
}
await mill.queue('mail').drain()
const { totals } = await mill.stats()
console.log(`critical: ${taken.critical} of 40 done`)
console.log(
  `low gave way before default, default before high: ${shed.low > shed.default && shed.default >= shed.high}`,
)
console.log(`every job was done or counted: ${totals.completed + totals.shed === 40 * 19}`)

// Put off instead of dropped.
await mill.queue('mail').pause()
await mill.queue('mail').depthLimit({ max: 10, overflow: 'shed', defer: '1h' })
const report = await mill.enqueueMany(
  work,
  Array.from({ length: 8 }, (_, n) => n),
  { priority: 'low' },
)
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
