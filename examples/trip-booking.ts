// A saga: flight, hotel and car are all booked, or what was booked is cancelled again, the last one first.
import { NonRetryableError } from 'millrace'
import { saga } from 'millrace/saga'
import { TestMill } from 'millrace/testing'

interface Trip {
  readonly who: string
  /** What is sold out, for this example. */
  readonly soldOut?: string
}

const log: string[] = []
let hotelIsDown = 0

/** A provider that knows an order by its key: the same key twice is one booking. */
function book(what: string, { soldOut }: Trip, key: string): { readonly order: string } {
  if (what === soldOut) throw new NonRetryableError(`no ${what} left`)
  log.push(`+${what}`)
  return { order: key }
}

/** Copes with an order that never was: a step that failed may have had its effect, or not. */
function unbook(what: string, order: string | undefined): void {
  if (what === 'hotel' && hotelIsDown-- > 0) throw new Error('the hotel does not answer')
  log.push(order === undefined ? `?${what}` : `-${what}`)
}

const bookTrip = saga<Trip>({
  name: 'book-trip',
  maxAttempts: 3,
  compensation: { maxAttempts: 20, backoff: { type: 'fixed', initialDelay: '1m', jitter: 'none' } },
})
  .step('flight', {
    run: ({ input, key }) => book('flight', input, key),
    compensate: ({ result }) => unbook('flight', result?.order),
  })
  .step('hotel', {
    run: ({ input, key }) => book('hotel', input, key),
    compensate: ({ result }) => unbook('hotel', result?.order),
  })
  .step('car', {
    run: ({ input, key, results }) => ({ ...book('car', input, key), near: results.hotel.order }),
    compensate: ({ result }) => unbook('car', result?.order),
  })
  // Nothing takes an e-mail back, so it comes last.
  .step('confirm', { run: ({ input }) => `confirmed to ${input.who}`, irreversible: true })
  .define()

const mill = new TestMill({ jobs: [bookTrip] })
mill.on('compensationFailed', ({ id, failure }) => console.log(`ALERT ${id}: ${failure.message}`))

for (const soldOut of [undefined, 'flight', 'hotel', 'car']) {
  log.length = 0
  const trip = { who: 'ann', ...(soldOut !== undefined && { soldOut }) }
  const job = await mill.enqueue(bookTrip, trip, { id: `without-${soldOut ?? 'trouble'}` })
  await mill.drain()
  const end = await job.result().then(
    (result) => result.confirm, // typed by the step
    (error: Error) => error.message,
  )
  console.log(`${log.join(' ')} | ${await job.state()}: ${end}`)
}

// A compensation that fails is tried again for a while; the job sleeps in between.
log.length = 0
hotelIsDown = 5
const job = await mill.enqueue(bookTrip, { who: 'bob', soldOut: 'car' })
await mill.drain()
console.log(`${log.join(' ')} | ${await job.state()}`)
await mill.advance('5m')
console.log(`${log.join(' ')} | ${await job.state()}`)
await mill.close()
