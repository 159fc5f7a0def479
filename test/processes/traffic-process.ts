/** A process that works by the store's verbs alone: claims, runs, settles, sweeps and rescues. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClaimedJob, OrphanedJob, Outcome, Settlement } from 'millrace'
import { Random } from '../chaos/random.js'
import { outcomeOf } from '../outcome.js'
import { storeAt } from '../place.js'
import type { ProcessConfig } from './fleet.js'

const retain = 3_600_000

process.on('disconnect', () => process.exit())
const { place, worker, seed, leaseMs } = JSON.parse(process.argv[2] ?? '') as ProcessConfig
const random = new Random(seed)
const store = storeAt(place)
await store.open()
process.send?.('ready')
void keepLease()
void sweepAndRescue()
await work()

async function work(): Promise<void> {
  const concurrency = 8
  let running = 0
  let turn = 0
  const ended: Settlement[] = []
  for (;;) {
    const settlements = ended.splice(0)
    running -= settlements.length
    const { claimed, opens } = await store.exchange({
      worker,
      settlements,
      claim: request(concurrency - running),
    })
    running += claimed.length
    turn += claimed.length
    for (const job of claimed) void run(job).then((settlement) => ended.push(settlement))
    await sleep(Math.min(opens ?? 10, 10))
  }

  function request(count: number) {
    const lanes = [0, 1, 2, 3]
    const room = { shared: count, own: [0, 0, 0, 0] }
    const picks = lanes.map((lane) => ({ queue: 'main', lane, take: count }))
    return { token: randomUUID(), lease: leaseMs, room, picks, turn }
  }
}

async function run({ id, token }: ClaimedJob): Promise<Settlement> {
  await sleep(random.between(5, 80))
  const outcome = random.chance(0.1)
    ? outcomeOf({ to: 'retrying', delay: random.integer(0, 50), failure: failure('it failed') })
    : outcomeOf({ to: 'completed', retain })
  return { id, token, outcome, inserts: undefined }
}

async function keepLease(): Promise<void> {
  for (;;) {
    await sleep(leaseMs / 4)
    await store.extend({ worker, lease: leaseMs, held: [] })
  }
}

async function sweepAndRescue(): Promise<void> {
  for (;;) {
    const { orphans } = await store.sweep({ limit: 100, keep: { completed: 1e6, dead: 1e6 } })
    for (const orphan of orphans) await rescue(orphan)
    await sleep(50)
  }
}

async function rescue({ id, token, worker: lost }: OrphanedJob): Promise<void> {
  const outcome = outcomeOf({ to: 'pending', crashed: true, failure: failure('the worker was lost') })
  const settlements = [{ id, token, outcome, inserts: undefined }]
  await store.exchange({ worker: lost, settlements, claim: undefined, rescue: true })
}

function failure(message: string): NonNullable<Outcome['failure']> {
  return { name: 'Error', message, stack: undefined, code: undefined, cause: message }
}
