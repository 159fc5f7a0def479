// Tenants take turns: one who adds thousands of jobs does not make the others wait.
import { defineJob, Millrace } from 'millrace'

const order: string[] = []
const thumbnail = defineJob({
  name: 'thumbnail',
  queue: 'images',
  group: (input: { tenant: string; n: number }) => input.tenant,
  run: ({ tenant }) => void order.push(tenant),
})

const mill = new Millrace({ store: 'memory:', jobs: [thumbnail] })
const add = (tenant: string, count: number) =>
  mill.enqueueMany(
    thumbnail,
    Array.from({ length: count }, (_, n) => ({ tenant, n })),
  )

const images = mill.queue('images')
await images.group('gold').weight(3) // three in a turn, where the others have one
await add('noisy', 5_000)
await add('gold', 30)
await add('small', 10)
console.log(
  `waiting: ${await depth('noisy')} noisy, ${await depth('gold')} gold, ${await depth('small')} small`,
)

const worker = mill.worker({ concurrency: 1, prefetch: 0 })
await worker.start()
await images.drain()
console.log(`the first turns: ${order.slice(0, 10).join(' ')}`)
console.log(`the last job of small was number ${order.lastIndexOf('small') + 1} of ${order.length}`)

// Limits and a pause for each group, at run time and for all processes.
await images.groupLimit({ concurrency: 2 })
await images.group('noisy').limit({ rate: { max: 5, per: '1m' } })
await images.group('small').pause()
order.length = 0
await Promise.all([add('noisy', 20), add('gold', 20), add('small', 20)])
await new Promise<void>((resolve) => mill.on('drained', () => resolve()))
console.log(`ran: ${count('noisy')} noisy, ${count('gold')} gold, ${count('small')} small`)
console.log(
  `waiting: ${await depth('noisy')} noisy, ${await depth('gold')} gold, ${await depth('small')} small`,
)
await mill.close()

async function depth(tenant: string): Promise<number> {
  return (await images.group(tenant).depth()).pending
}

function count(tenant: string): number {
  return order.filter((one) => one === tenant).length
}
