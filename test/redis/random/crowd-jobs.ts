/** What a crowd does in one run, and the jobs that it adds. */
import type { NewJob } from '../../../src/core/job.js'
import type { Outcome } from '../../../src/core/lifecycle.js'
import type { GateRef } from '../../../src/core/traffic/settings.js'
import { childOf, parent } from '../../../src/testing/conformance/family-jobs.js'
import { complete, die, newJob, retryIn } from '../../../src/testing/conformance/helpers.js'
import { jobGate, queueGate } from '../../../src/testing/conformance/traffic-helpers.js'
import type { Random } from '../../chaos/random.js'
import type { Books, Most } from './books.js'
import { pickWeighted } from './seeds.js'

export interface CrowdTraits {
  readonly shards: number
  /** Of what runs at the same time. */
  readonly limit: number | undefined
  readonly limited: 'queue' | 'job'
  readonly isGated: boolean
  readonly groups: 'none' | 'some' | 'all'
  readonly losesAnswers: boolean
  /** Jobs are added, claimed and completed, and little else, so that less is for the desk. */
  readonly isCalm: boolean
  /** More is asked for than there is, so that workers leave claims behind. */
  readonly isIdle: boolean
}

export const queues = ['main', 'free', 'family']
const forever = 1_000_000_000
const keepAll = { completed: forever, dead: forever }
const keepNothing = { completed: 0, dead: 0 }

export function crowdTraitsOf(random: Random): CrowdTraits {
  return {
    shards: random.pick([1, 1, 3]),
    ...(random.chance(0.25) ? nothingGoverns : governingOf(random)),
    losesAnswers: random.chance(0.5),
    isCalm: random.chance(0.5),
    isIdle: random.chance(0.5),
  }
}

type Governing = Pick<CrowdTraits, 'limit' | 'limited' | 'isGated' | 'groups'>

/** Only such jobs are given to workers that have not asked for them. */
const nothingGoverns: Governing = { limit: undefined, limited: 'queue', isGated: false, groups: 'none' }

function governingOf(random: Random): Governing {
  return {
    // None, one that is often reached, or one that hardly ever is.
    limit: random.pick([undefined, random.integer(4, 15), random.integer(30, 60)]),
    limited: random.pick(['queue', 'job']),
    isGated: random.chance(0.5),
    groups: random.pick(['none', 'some', 'all']),
  }
}

export function limitedGate({ limited }: CrowdTraits): GateRef {
  return limited === 'queue' ? queueGate() : jobGate()
}

export function mostOf({ limit, limited }: CrowdTraits): Most {
  const of: Most['of'] = ({ name, queue }) => (limited === 'queue' ? queue === 'main' : name === 'greet')
  return { count: limit ?? Number.POSITIVE_INFINITY, of }
}

export function familyOf(random: Random, books: Books): readonly [top: NewJob, ...children: NewJob[]] {
  const top = parent({ id: books.newId(), name: 'top', queue: 'family' })
  const children = Array.from({ length: random.integer(1, 3) }, () => child(top.id, books))
  return [top, ...children]
}

/** Alike, as those are that a handler adds. */
export function laterChildren(top: string, random: Random, books: Books): readonly NewJob[] {
  const first = child(top, books)
  const others = Array.from({ length: random.integer(0, 2) }, () => ({ ...first, id: books.newId() }))
  return [first, ...others]
}

function child(top: string, books: Books): NewJob {
  return childOf([top], { id: books.newId(), name: 'child', queue: 'family' })
}

export function singleJobs(random: Random, traits: CrowdTraits, books: Books): readonly NewJob[] {
  const { shards, isGated, groups, limited, isCalm } = traits
  const queue = limited === 'queue' && !isCalm && random.chance(0.17) ? 'free' : 'main'
  return Array.from({ length: random.integer(1, 5) }, () => {
    const id = books.newId()
    const hasGroup = groups === 'all' || (groups === 'some' && random.chance(0.75))
    const group = hasGroup ? random.pick(['a', 'b', 'c', 'd', `of-${id}`]) : undefined
    const traffic = isGated || group !== undefined ? { gated: isGated, group, key: undefined } : undefined
    return newJob({ id, queue, traffic, ...(shards > 1 && { fresh: true }) })
  })
}

export function endOf(random: Random): Outcome {
  const end = pickWeighted(random, [
    [58, completion],
    [1, () => die(undefined, keepAll)],
    [1, () => retryIn(random.integer(0, 19))],
  ])
  return end(random)
}

export function completion(random: Random): Outcome {
  return complete('"r"', random.chance(0.5) ? keepAll : keepNothing)
}
