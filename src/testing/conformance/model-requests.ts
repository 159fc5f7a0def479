/** Turns the steps of a random run, which are numbers mostly, into the requests that a store takes. */
import type { LogLine, NewJob } from '../../core/job.js'
import { laneCount, type Pick } from '../../core/lanes.js'
import { type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { ClaimRequest, Command, JobFilter, RetryChange, Settlement } from '../../core/store.js'
import { complete, die, failureOf, newJob, retryIn, stop, wait } from './helpers.js'
import type { ClaimStep, CommandStep, FilterStep, JobStep, OutcomeStep, SettleStep } from './model-steps.js'
import type { World, WorldLease } from './model-world.js'

export interface GivenLease {
  readonly id: string
  readonly lease: WorldLease
}

export class Requests {
  /** All ids ever used, to see that none comes back. */
  readonly ids = new Set<string>(['first'])
  /** All leases ever given, newest first. */
  readonly leases: GivenLease[] = []
  readonly #world: World
  #serial = 0

  constructor(world: World) {
    this.#world = world
  }

  /** One of them, whatever the number. */
  leaseAt(n: number): GivenLease | undefined {
    return this.leases[n % Math.max(1, this.leases.length)]
  }

  job(step: JobStep): NewJob {
    const id = idOf(step.id)
    this.ids.add(id)
    return newJob({
      id,
      queue: queueOf(step.queue),
      name: nameOf(step.name),
      lane: step.lane,
      input: `${this.#serial++}`,
      delay: step.delay,
      runAt: step.runAt === undefined ? undefined : this.#world.now + step.runAt,
      maxCrashes: step.maxCrashes,
      ...(step.extras ? { tags: ['extra'], metadata: '"extra"', overrides: '{"timeout":1}' } : {}),
    })
  }

  settlement(step: SettleStep): Settlement {
    const found = this.leaseAt(step.lease)
    const id = found?.id ?? 'nobody'
    const token = found?.lease.token ?? 'nothing'
    return {
      id,
      token: step.forged ? forge(token) : token,
      outcome: outcomeOf(step.outcome, this.#world.jobs.get(id)?.name ?? 'nobody'),
      inserts: step.inserts?.map((job) => this.job(job)),
      report: step.report ? { progress: `${this.#serial++}`, logs: this.lines(1) } : undefined,
    }
  }

  claimRequest(step: ClaimStep): ClaimRequest {
    const queues = step.otherQueueFirst ? [1, 0] : [0, 1]
    const lanes = Array.from({ length: laneCount }, (_, lane) => lane)
    const picks: Pick[] = lanes.flatMap((lane) =>
      queues.map((queue) => ({ queue: queueOf(queue), lane, take: step.takes[2 * lane + queue] ?? 0 })),
    )
    return {
      token: `claim-${this.#serial++}`,
      lease: step.lease,
      room: { shared: step.shared, own: step.own },
      picks,
      turn: 0,
    }
  }

  lines(count: number): LogLine[] {
    return Array.from({ length: count }, () => ({ at: this.#serial++, level: 'info', text: 'line' }))
  }

  command(step: CommandStep): Command {
    switch (step.do) {
      case 'cancel':
        return { do: 'cancel', reason: `reason ${this.#serial++}`, retain: step.retain }
      case 'retry': {
        const { queue, lane, input } = step.change
        const change: RetryChange = {
          ...(queue === undefined ? {} : { queue: queueOf(queue) }),
          ...(lane === undefined ? {} : { lane }),
          ...(input ? { input: `${this.#serial++}`, maxAttempts: 7, overrides: '{"timeout":2}' } : {}),
        }
        return { do: 'retry', delay: step.delay, spacing: step.spacing, change }
      }
      default:
        return { do: step.do }
    }
  }

  filter(step: FilterStep): JobFilter {
    const { now } = this.#world
    const cause = step.cause === undefined ? undefined : causeOf(nameOf(step.name ?? 0), step.cause).cause
    return {
      state: step.state,
      queue: step.queue === undefined ? undefined : queueOf(step.queue),
      name: step.name === undefined ? undefined : nameOf(step.name),
      tag: step.tag ? 'extra' : undefined,
      // The contract gives a cause to dead jobs only.
      cause: step.state === 'dead' ? cause : undefined,
      after: step.after === undefined ? undefined : now + step.after,
      before: step.before === undefined ? undefined : now + step.before,
    }
  }
}

function outcomeOf(step: OutcomeStep, name: string): Outcome {
  switch (step.to) {
    case 'complete':
      return complete(step.result, { completed: step.retain, dead: 0 })
    case 'retry':
      return retryIn(step.delay, causeOf(name, step.cause))
    case 'die':
      return die(causeOf(name, step.cause), { completed: 0, dead: step.retain })
    case 'stop':
      return stop('stopped', { completed: step.retain, dead: 0 })
    case 'release':
      return released()
    case 'wait':
      return wait()
    case 'snooze':
      return snoozed(step.delay)
  }
}

function causeOf(name: string, cause: number) {
  return failureOf(name, cause === 0 ? 'refused' : 'broken')
}

export function forge(token: string): string {
  return `${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`
}

export const idOf = (n: number) => `job-${n}`
export const queueOf = (n: number) => `queue-${n}`
const nameOf = (n: number) => `name-${n}`
export const workerOf = (n: number) => `worker-${n}`
