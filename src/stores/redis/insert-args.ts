/** How jobs are told to insert.lua: those that follow each other and are alike are told once what they have in common. */
import type { ParentLink } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest } from '../../core/store.js'
import type { JobTraffic } from '../../core/traffic/settings.js'
import { newLink } from '../ledger/joining.js'
import { kindKey } from '../page/kinds.js'
import { writeLink } from '../page/links.js'
import { writeGiven, writeUnusual } from './body.js'
import { writeLinkText } from './page/link-text.js'
import { handleOf } from './ticket.js'
import { unusualOf } from './unusual.js'

type Args = (string | number)[]

/** `claim`: of an idle worker that they may be given to. */
export function insertArgs(jobs: readonly NewJob[], claim: ExchangeRequest | undefined): Args {
  const teams = new Teams(jobs)
  const args = [...claimArgs(claim), ...teams.args()]
  let sizeAt = 0
  let last: NewJob | undefined
  for (const job of jobs) {
    if (last === undefined || !isAlike(last, job)) {
      const flags = [isGated(job) ? 1 : 0, hasGroup(job) ? 1 : 0]
      args.push(kindKey(job.queue, job.name, job.lane), ...flags, dueOf(job), ...commonArgs(job), 0)
      sizeAt = args.length - 1
      last = job
    }
    args[sizeAt] = (args[sizeAt] as number) + 1
    args.push(handleOf(job.id), given(job))
    if (hasGroup(job)) args.push(teams.numberOf(job))
  }
  return args
}

function claimArgs({ worker, claim }: Partial<ExchangeRequest> = {}): Args {
  if (claim === undefined) return ['', '', '', 0]
  const lines = claim.picks.map(({ queue, lane }) => `${lane}:${queue}`)
  return [worker as string, claim.token, claim.lease, lines.length, ...lines]
}

function isAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.name === b.name &&
    a.queue === b.queue &&
    a.lane === b.lane &&
    a.family === b.family &&
    isGated(a) === isGated(b) &&
    hasGroup(a) === hasGroup(b) &&
    a.delay === b.delay &&
    a.runAt === b.runAt
  )
}

function isGated({ traffic }: NewJob): boolean {
  return traffic?.gated === true
}

function hasGroup({ traffic }: NewJob): boolean {
  return traffic?.group !== undefined
}

/** Of children their parent, what is unusual about all of them, and of children the links to them. */
function commonArgs(job: NewJob): Args {
  const unusual = hasGroup(job) ? '' : writeUnusual(unusualOf(job))
  if (job.family === undefined) return ['', unusual, '']
  const [parent] = job.family.parents as readonly [ParentLink]
  const link = writeLinkText(writeLink(0, newLink(parent.id, parent, job)))
  return [handleOf(parent.id), unusual, link]
}

/** Jobs of the same group and as many gates are told apart by nothing that limits know. */
class Teams {
  readonly #numbers = new Map<string, number>()
  readonly #args: Args = []

  constructor(jobs: readonly NewJob[]) {
    for (const job of jobs) {
      const { queue, traffic } = job
      if (traffic?.group === undefined) continue
      const name = nameOf(queue, traffic)
      if (this.#numbers.has(name)) continue
      this.#numbers.set(name, this.#numbers.size + 1)
      this.#args.push(`group\n${queue}\n${traffic.group}`, writeUnusual(unusualOf(job)))
    }
  }

  args(): Args {
    return [this.#numbers.size, ...this.#args]
  }

  numberOf({ queue, traffic }: NewJob): number {
    return this.#numbers.get(nameOf(queue, traffic as JobTraffic)) as number
  }
}

function nameOf(queue: string, { gated, group }: JobTraffic): string {
  return `${gated ? 1 : 0}${queue}\n${group}`
}

function dueOf({ delay, runAt }: NewJob): string {
  if (runAt !== undefined) return String(runAt)
  return delay > 0 ? `+${delay}` : ''
}

function given({ maxAttempts, maxCrashes, input, overrides, metadata }: NewJob): string {
  return writeGiven({
    max_attempts: maxAttempts,
    max_crashes: maxCrashes,
    input,
    overrides: overrides ?? null,
    tags: null,
    search: null,
    metadata: metadata ?? null,
  })
}
