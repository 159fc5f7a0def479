// Calls of a paid API: at most 100 a second over all processes, no attempt lost when it answers 429, and none
// sent while it is down.
import { defineJob, limited, Millrace } from 'millrace'

// A stand-in for the other side, with a limit of its own for each customer.
const api = {
  calls: 0,
  busy: new Map([['acme', 2]]),
  async charge(customer: string): Promise<{ status: number; retryAfter?: number }> {
    this.calls++
    const refusals = this.busy.get(customer) ?? 0
    this.busy.set(customer, refusals - 1)
    return refusals > 0 ? { status: 429, retryAfter: 0.3 } : { status: 200 }
  },
}

const charge = defineJob({
  name: 'charge',
  limit: { rate: { max: 100, per: '1s', burst: 50 } }, // over all workers and processes, in any window of a second
  key: (input: { customer: string; amount: number }) => input.customer,
  keyLimit: { concurrency: 1 }, // one call at a time for each customer
  breaker: { failureRate: 0.5, minimum: 20, cooldown: '30s' }, // stops the calls while half of them fail
  maxAttempts: 1,
  async run({ customer }: { customer: string; amount: number }) {
    const { status, retryAfter } = await api.charge(customer)
    if (status === 429) return limited(`${retryAfter}s`) // this customer waits, the others go on
    if (status !== 200) throw new Error(`the API answered ${status}`)
    return 'charged'
  },
})

const mill = new Millrace({ store: 'memory:', jobs: [charge] })
mill.on('limited', ({ key, delay }) => console.log(`${key} waits for ${delay} ms`))

const customers = ['acme', 'bolt', 'crux', 'dart', 'echo']
await mill.enqueueMany(
  charge,
  Array.from({ length: 250 }, (_, n) => ({ customer: customers[n % 5] as string, amount: n })),
)
const started = Date.now()
await mill.worker({ concurrency: 20 }).start()
await mill.queue('default').drain({ later: true })
const seconds = (Date.now() - started) / 1000

// Limits go by the clock of the store: what counts is when a job was handed out.
const { jobs } = await mill.jobs({ state: 'completed' }, { limit: 1000 })
const starts = jobs.map(({ startedAt }) => startedAt?.getTime() ?? 0)
const busiest = Math.max(
  ...starts.map((from) => starts.filter((at) => at >= from && at < from + 1000).length),
)
const { completed, failed } = (await mill.stats()).totals
console.log(`${completed} charged, ${failed} failed, no attempt lost to ${api.calls - 250} answers of 429`)
console.log(
  `never more than 100 starts a second: ${busiest <= 100}; ${seconds > 1 && seconds < 4 ? 'a few' : seconds} seconds`,
)

// The same limit where there is no job, and a change of it for all processes at once.
await mill.definition(charge).limit({ rate: { max: 10, per: '1s' } })
const limiter = mill.limiter('reports', { max: 5, per: '1s' })
await limiter.acquire({ weight: 3, signal: AbortSignal.timeout(5_000) })
console.log(
  `a report may start; two more at once: ${await limiter.tryAcquire({ weight: 2 })}, another: ${await limiter.tryAcquire()}`,
)
await mill.close()
