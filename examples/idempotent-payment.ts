// An order that arrives twice is charged once, whoever asks and however often it is tried.
import { defineJob, Millrace } from 'millrace'

/** A payment provider that takes an idempotency key; its answers get lost now and then. */
const provider = {
  charges: new Map<string, string>(),
  calls: 0,
  charge(key: string, amount: number): string {
    const receipt = this.charges.get(key) ?? `receipt ${this.charges.size + 1} over ${amount}`
    this.charges.set(key, receipt)
    if (++this.calls === 1) throw new Error('the answer was lost')
    return receipt
  },
}

const charge = defineJob({
  name: 'charge',
  maxAttempts: 5,
  backoff: { type: 'fixed', initialDelay: '10ms' },
  // Fixed when the job is enqueued. The result is kept for 30 days; one shorter than all retries is refused.
  idempotency: { key: ({ order }: { order: string; amount: number }) => order, ttl: '30d' },
  run: ({ amount }, { idempotencyKey }) => provider.charge(idempotencyKey, amount),
})

const mill = new Millrace({ store: 'memory:', jobs: [charge] })
mill.on('completed', ({ id, stored }) => console.log(stored ? `${id}: done before` : `${id}: charged`))
mill.on('retrying', ({ id, failure }) => console.log(`${id}: ${failure.message}, tried again`))
await mill.worker().start()

// The customer clicks twice, and the shop's own retry adds a third.
for (const id of ['click-1', 'click-2', 'retry-of-click-1']) {
  const job = await mill.enqueue(charge, { order: 'order-7', amount: 20 }, { id })
  console.log(`${id}: ${await job.result()}`)
}
console.log(`${provider.calls} calls, ${provider.charges.size} charge`)

// The same for work that is no job, such as a request's: concurrent calls wait for the first, later ones get its result.
const refund = () => mill.idempotent('refund-7', async () => ({ refund: 20, at: new Date(0) }))
const [first, second] = await Promise.all([refund(), refund()])
console.log('the same refund:', first.at.getTime() === second.at.getTime(), second.refund)

// By hand, where the work begins in one place and ends in another.
const beginning = await mill.idempotency.begin<string>('export-7', { lease: '5m' })
console.log('export:', beginning.status, 'and for others:', (await mill.idempotency.begin('export-7')).status)
if (beginning.status === 'begun') await beginning.complete('export.csv')
console.log('export:', await mill.idempotency.begin('export-7'))
await mill.close()
