// What happens to a job that fails, and what to do about those that will not recover by themselves.
import { defineJob, isMillraceError, Millrace, NonRetryableError, RetryAfter } from 'millrace'

const fetchPrice = defineJob<{ from: string }, number>({
  name: 'fetch-price',
  maxAttempts: 4,
  backoff: { type: 'exponential', initialDelay: '10ms', maxDelay: '1s' }, // with full jitter, unless you say otherwise
  retryable: (error) => !(error instanceof TypeError), // a bug of our own does not go away
  async run({ from }, { attempt }) {
    if (from === 'a flaky network' && attempt < 3) throw new Error('connection reset')
    if (from === 'a busy server' && attempt === 1) throw new RetryAfter('50ms', '429: come back later')
    if (from === 'a wrong address') throw new NonRetryableError('404: no such product')
    if (from === 'a buggy handler') throw new TypeError('price is not a function')
    if (from.startsWith('supplier') && supplierIsDown) throw new Error('the supplier is down')
    return 100 + attempt
  },
})
let supplierIsDown = true

const mill = new Millrace({ store: 'memory:', jobs: [fetchPrice] })
mill.on('retrying', ({ id, attempt, failure }) =>
  console.log(`  ${id}: attempt ${attempt} failed: ${failure.message}`),
)
await mill.worker().start()

async function fetchFrom(from: string): Promise<void> {
  const job = await mill.enqueue(fetchPrice, { from }, { id: from.replaceAll(' ', '-') })
  try {
    console.log(`${job.id}: price ${await job.result()}`)
  } catch (error) {
    if (!isMillraceError(error, 'JOB_DEAD')) throw error
    console.log(error.message)
  }
}

for (const from of ['a flaky network', 'a busy server', 'a wrong address', 'a buggy handler'])
  await fetchFrom(from)
await Promise.all([1, 2, 3].map((n) => fetchFrom(`supplier ${n}`)))

console.log('\nDead letters by cause:')
const groups = await mill.dead.groups()
for (const { count, message, sample } of groups) console.log(`  ${count} x ${message}, such as ${sample}`)

console.log('\nA wrong input is put right:')
const corrected = await mill.dead.retry('a-wrong-address', { input: { from: 'the right address' } })
console.log(`  ${corrected.id}: price ${await corrected.result()}`)

console.log('\nThe supplier is back. One job goes first; the others follow because it completes:')
supplierIsDown = false
for (const { cause, message } of groups) {
  if (message !== 'the supplier is down') continue
  const { retried, canaries, stopped } = await mill.dead.retryAll({ cause }, { canary: 1, rate: 100 })
  console.log(`  canary ${canaries[0]}, ${retried} retried, stopped: ${stopped}`)
}
await mill.queue('default').drain({ later: true })
const { completed, dead } = (await mill.stats()).states
console.log(`  ${completed} completed, ${dead} dead: the bug is still there`)
await mill.close()
