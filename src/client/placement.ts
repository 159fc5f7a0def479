import type { AnyJob, EnqueueOptions } from '../core/definition.js'
import { MillraceError, show } from '../core/errors.js'
import type { NewGuard } from '../core/guard.js'
import type { NewJob } from '../core/job.js'
import { invalid } from '../core/options.js'
import { marksOf } from '../core/search.js'
import { type Dedupe, newestWins } from '../core/traffic/dedupe.js'
import { belonging, type CompiledTraffic, compileDedupe } from '../core/traffic/options.js'
import type { JobTraffic } from '../core/traffic/settings.js'

/** What limits a job, whom it makes way for, what it must not do twice, and what it is found by. */
export type Placement = Pick<NewJob, 'traffic' | 'dedupe' | 'guard' | 'search'>

/** By the definition and the input; undefined for a job that has none of it. */
export function placement(
  job: AnyJob,
  input: unknown,
  options: EnqueueOptions | undefined,
): Placement | undefined {
  const none = job.traffic === undefined && options?.group === undefined && options?.key === undefined
  if (none && !options?.dedupe && job.idempotency === undefined && job.search === undefined) return undefined
  const dedupe = dedupeOf(job, input, options)
  const group = text(options?.group ?? told(job, 'group', job.traffic?.group, input), 'group')
  const key = keyOf(job, input, options, dedupe)
  const search = marksOf(job.search, input)
  return { traffic: trafficOf(job, group, key), dedupe, guard: guardOf(job, input), search }
}

/** Behind the definition's name, which has no colon: keys of one are not those of another. */
export function guardOf(job: AnyJob, input: unknown): NewGuard | undefined {
  const { name, idempotency } = job
  if (idempotency === undefined) return undefined
  const field = 'idempotency.key'
  const key = told(job, field, idempotency.key, input, always)
  return { key: `${name}:${belonging(key as string | number, field)}`, retain: idempotency.ttl }
}

function trafficOf(
  { traffic }: AnyJob,
  group: string | undefined,
  key: string | undefined,
): JobTraffic | undefined {
  const gated = traffic !== undefined && Object.keys(traffic.settings).length > 0
  return gated || group !== undefined || key !== undefined ? { gated, group, key } : undefined
}

/** Where the last is kept, the dedupe key is the key: its limit is what keeps two from running at the same time. */
function keyOf(
  job: AnyJob,
  input: unknown,
  options: EnqueueOptions | undefined,
  dedupe: Dedupe | undefined,
): string | undefined {
  if (!keepsLast(job)) return text(options?.key ?? told(job, 'key', job.traffic?.key, input), 'key')
  if (options?.key !== undefined)
    throw invalid(
      'key',
      options.key,
      `none, because job '${job.name}' keeps the last job of each dedupe key and runs one at a time; give \`dedupe.key\` instead`,
    )
  return dedupe?.key ?? text(told(job, 'dedupe.key', job.traffic?.key, input), 'dedupe.key')
}

function dedupeOf(job: AnyJob, input: unknown, options: EnqueueOptions | undefined): Dedupe | undefined {
  const given = options?.dedupe
  if (given === false) return undefined
  const own = job.traffic?.dedupe
  const rule = given ? compileDedupe(given) : own
  if (rule === undefined) return undefined
  const key = text(given ? given.key : told(job, 'dedupe.key', own?.key, input), 'dedupe.key')
  if (key === undefined) return undefined
  const { mode, window, most } = rule
  if (mode === 'keep-last' && !keepsLast(job))
    throw invalid(
      'dedupe.mode',
      mode,
      `another mode, or 'keep-last' on the definition of job '${job.name}' too, because it limits what runs at the same time`,
    )
  if (job.unwinds === true && newestWins(mode))
    throw invalid(
      'dedupe.mode',
      mode,
      `'until-done' or 'throttle', because job '${job.name}' is a saga, which others would end midway`,
    )
  if (mode === 'debounce' && (options?.delay !== undefined || options?.runAt !== undefined))
    throw invalid(
      'dedupe.mode',
      mode,
      "another mode, or no 'delay' and 'runAt': debounce decides when it starts",
    )
  return { key, mode, window, most }
}

function keepsLast({ traffic }: AnyJob): boolean {
  return traffic?.dedupe?.mode === 'keep-last'
}

type Told = ReturnType<NonNullable<CompiledTraffic['key']>>

/** What a function of the definition says about an input: checked each time, because it is not ours. */
function told(
  job: AnyJob,
  field: string,
  ask: ((input: unknown) => Told) | undefined,
  input: unknown,
  expected = orNone,
): Told {
  if (ask === undefined) return undefined
  let answer: unknown
  try {
    answer = ask(input)
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : show(cause)
    const sentence = `${field} of job '${job.name}' threw '${said}'; ${expected}`
    throw new MillraceError('INVALID_OPTION', sentence, { field, cause })
  }
  if (!(answer instanceof Promise)) return answer as Told
  answer.catch(() => {}) // nobody waits for it
  const sentence = `${field} of job '${job.name}' returned a promise; ${expected}, at once: what takes a wait belongs into the input`
  throw new MillraceError('INVALID_OPTION', sentence, { field, value: answer })
}

const always = 'expected it to return a text or a number for every input'
const orNone = `${always}, or undefined for none`

/** None, or a name that is good for one. */
function text(value: string | number | null | undefined, field: string): string | undefined {
  return value === undefined || value === null ? undefined : belonging(value, field)
}
