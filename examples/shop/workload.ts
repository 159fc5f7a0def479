import type { Duration, JobHandle, Millrace } from 'millrace'
import type { ShopJobs } from './jobs.js'
import { luck } from './random.js'

export interface Order {
  readonly id: string
  readonly email: string
  readonly cents: number
  readonly photos: readonly string[]
  /** Wants to be asked for a review later, or changes their mind about it. */
  readonly review: 'yes' | 'no' | 'changed their mind'
}

export function makeOrder(id: string, random: () => number): Order {
  const photos = Math.floor(random() * 3)
  const mind = random()
  return {
    id,
    email: customer(random),
    cents: 500 + Math.floor(random() * 20_000),
    photos: Array.from({ length: photos }, (_, i) => `${id}-${i + 1}.jpg`),
    review: mind < 0.5 ? 'yes' : mind < 0.6 ? 'changed their mind' : 'no',
  }
}

/** Adds the jobs of one order and returns them; the receipt follows from the payment. */
export async function place(
  mill: Millrace,
  jobs: ShopJobs,
  order: Order,
  reviewAfter: Duration,
): Promise<JobHandle[]> {
  const { id, email, cents } = order
  const tags = [`order:${id}`]
  const added: JobHandle[] = await Promise.all([
    // The order's own id: placing the same order twice charges it once.
    mill.enqueue(jobs.chargePayment, { order: id, cents, email }, { id: `charge:${id}`, tags }),
    ...order.photos.map((photo) =>
      mill.enqueue(jobs.resizeImage, { photo, factor: 4 }, { id: `image:${photo}`, tags }),
    ),
  ])
  if (order.review !== 'no') {
    const options = { id: `${reviewPrefix}${id}`, priority: 'low', delay: reviewAfter, tags } as const
    const review = await mill.enqueue(jobs.sendMail, { to: email, template: 'review' }, options)
    if (order.review === 'changed their mind') await review.cancel('the customer wants no mail')
    added.push(review)
  }
  return added
}

const reviewPrefix = 'review:'

/** A job that waits on purpose: its wait says nothing about how busy the shop is. */
export function waitsOnPurpose(id: string): boolean {
  return id.startsWith(reviewPrefix)
}

/** Many mails that can wait: the low lane keeps them out of the way of receipts. */
export function sendNewsletter(
  mill: Millrace,
  jobs: ShopJobs,
  count: number,
  random: () => number,
): Promise<JobHandle[]> {
  const mails = Array.from({ length: count }, () => ({
    to: customer(random),
    template: 'newsletter' as const,
  }))
  return mill.enqueueMany(jobs.sendMail, mails, { priority: 'low', tags: ['newsletter'] })
}

const titles = ['sales by hour', 'stock on hand', 'best sellers', 'open invoices', 'returns']

export function orderReport(mill: Millrace, jobs: ShopJobs, id: string, steps: number): Promise<JobHandle> {
  const title = titles[Math.floor(luck(id) * titles.length)] as string
  return mill.enqueue(jobs.buildReport, { title, steps }, { id: `report:${id}` })
}

function customer(random: () => number): string {
  return `customer${Math.floor(random() * 1e6)}@mail.example`
}
