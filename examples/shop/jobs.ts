import { setTimeout as sleep } from 'node:timers/promises'
import { type Duration, defineJob, NonRetryableError, RetryAfter } from 'millrace'
import { z } from 'zod'
import { meanColour, photo, shrink } from './image.js'
import { luck } from './random.js'
import { CardDeclined, type Services, TooManyRequests } from './services.js'

/** How patient the jobs are: a shop that runs all day waits longer between attempts than one that runs once. */
export interface Pace {
  readonly firstRetry: Duration
  readonly longestRetry: Duration
  readonly mailTimeout: Duration
  /** Milliseconds for one of the steps of a report. */
  readonly reportStep: number
}

export type ShopJobs = ReturnType<typeof shopJobs>

/** What a running report tells about itself. */
export const reportProgress = z.object({ title: z.string(), done: z.number(), steps: z.number() })

/** The four kinds of background work. `added` hears of the jobs that a handler adds: parent and child. */
export function shopJobs(
  services: Services,
  pace: Pace,
  added: (parent: string, child: string) => void = () => {},
) {
  const backoff = { type: 'exponential', initialDelay: pace.firstRetry, maxDelay: pace.longestRetry } as const

  const sendMail = defineJob({
    name: 'send-mail',
    queue: 'mail',
    input: z.object({ to: z.email(), template: z.enum(['receipt', 'newsletter', 'review']) }),
    maxAttempts: 5,
    backoff,
    timeout: pace.mailTimeout,
    async run({ to, template }, { attempt, signal }) {
      return { messageId: await services.mail.send(to, template, attempt, signal) }
    },
  })

  const chargePayment = defineJob({
    name: 'charge-payment',
    queue: 'payments',
    priority: 'critical',
    input: z.object({ order: z.string(), cents: z.int().positive(), email: z.email() }),
    maxAttempts: 15,
    backoff,
    timeout: '10s',
    async run({ order, cents, email }, { jobId, attempt, signal, enqueue }) {
      try {
        const charge = await services.gateway.charge(order, cents, attempt, signal)
        const receipt = { to: email, template: 'receipt' } as const
        added(jobId, await enqueue(sendMail, receipt, { id: `receipt:${order}`, priority: 'high' }))
        return { charge }
      } catch (error) {
        // Another attempt will not fill the account, and a gateway that names a time is taken at its word.
        if (error instanceof CardDeclined) throw new NonRetryableError(error.message, { cause: error })
        if (error instanceof TooManyRequests) throw new RetryAfter(error.retryAfterMs, error.message)
        throw error
      }
    },
  })

  const resizeImage = defineJob({
    name: 'resize-image',
    queue: 'images',
    input: z.object({ photo: z.string(), factor: z.int().min(2).max(16) }),
    backoff,
    async run(input, { signal }) {
      const { width, height, ...small } = await shrink(photo(input.photo, 720, 480), input.factor, signal)
      return { width, height, colour: meanColour({ width, height, ...small }) }
    },
  })

  const buildReport = defineJob({
    name: 'build-report',
    queue: 'reports',
    priority: 'low',
    input: z.object({ title: z.string(), steps: z.int().positive() }),
    backoff,
    timeout: '2m',
    async run({ title, steps }, { jobId, attempt, signal, progress, log }) {
      log(`attempt ${attempt}: ${steps} steps`)
      let revenue = 0
      for (let done = 0; done < steps; done++) {
        progress({ title, done, steps } satisfies z.infer<typeof reportProgress>)
        await sleep(pace.reportStep, undefined, { signal })
        revenue += Math.round(10_000 * luck(jobId, done))
        const unlucky = attempt === 1 && luck('report', jobId) < 0.2
        if (unlucky && done === Math.floor(steps / 2))
          throw new Error('the sales table is locked by another report')
      }
      log(`revenue ${(revenue / 100).toFixed(2)}`)
      return { title, revenue }
    },
  })

  return { sendMail, chargePayment, resizeImage, buildReport }
}
