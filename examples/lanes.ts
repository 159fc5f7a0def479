// Priorities. Four lanes share the slots 8:4:2:1, so that urgent work goes first and none starves.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, type LaneOptions, Millrace, type Priority } from 'millrace'

const ran: Priority[] = []
const work = defineJob<Priority, void>({
  name: 'work',
  run(lane) {
    ran.push(lane)
  },
})

/** Fifteen jobs in each lane, the least urgent enqueued first; which fifteen does a single slot run first? */
async function firstFifteen(lanes: LaneOptions): Promise<string> {
  const mill = new Millrace({ store: 'memory:', jobs: [work] })
  for (const lane of ['low', 'default', 'high', 'critical'] as const) {
    await mill.enqueueMany(work, Array(15).fill(lane), { priority: lane })
  }
  ran.length = 0
  await mill.worker({ concurrency: 1, prefetch: 0, lanes }).start()
  await mill.queue('default').drain()
  await mill.close()
  const initials = ran.map((lane) => lane.charAt(0).toUpperCase())
  return initials.slice(0, 15).join(' ')
}

console.log('8:4:2:1 ', await firstFifteen({}))
console.log('1:1:1:1 ', await firstFifteen({ weights: { critical: 1, high: 1, default: 1, low: 1 } }))
console.log('strict  ', await firstFifteen({ strict: true }))

// Reserved slots: however many slow jobs there are, an urgent one finds its slot free.
const slow = defineJob<null, void>({
  name: 'slow',
  run: (_, { signal }) => sleep(60_000, undefined, { signal }),
})
const urgent = defineJob<null, string>({ name: 'urgent', priority: 'critical', run: () => 'done' })

const mill = new Millrace({ store: 'memory:', jobs: [slow, urgent] })
const worker = mill.worker({ concurrency: 4, lanes: { reserved: { critical: 1 } } })
await worker.start()
await mill.enqueueMany(slow, Array(20).fill(null))
while (worker.active < 3) await sleep(5)

const job = await mill.enqueue(urgent, null)
console.log('urgent  ', await job.result())
const { running, pending } = await mill.queue('default').depth()
console.log(`meanwhile ${running} slow jobs run and ${pending} wait`)
await mill.close({ grace: 0 }) // gives back what runs instead of waiting for it
