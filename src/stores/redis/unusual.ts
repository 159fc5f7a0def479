/**
 * What is unusual about a job from the beginning, as its body has it: the text of givenText in job-row.ts, or a shorter one of a child
 * that is like most. There may be a hundred thousand of them, and each body is read and written as a whole.
 */
import type { FailurePolicy, NewFamily } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import { givenText } from '../page/job-row.js'

/** Its parent, the flow, 0 where that is the same, what its failure does to the parent, and the flow's patience. */
type Child = readonly [parent: string, flow: string | 0, onFailure: FailurePolicy, patience: number]

export function unusualOf(job: NewJob): string | null {
  const text = givenText(job)
  if (text === null || job.family === undefined) return text
  const short = shortOf(job.family)
  return longOf(short) === text ? short : text
}

/** The text of givenText. */
export function readUnusual(text: string): string {
  return text.startsWith(beginning) ? longOf(text) : text
}

const beginning = '{"child":'

/** Those of a flow have one family between them. */
const shorts = new WeakMap<NewFamily, string>()

function shortOf(family: NewFamily): string {
  let text = shorts.get(family)
  if (text === undefined) {
    const { id = '', onFailure = 'fail' } = family.parents[0] ?? {}
    const child: Child = [id, family.flow === id ? 0 : family.flow, onFailure, family.patience]
    text = `${beginning}${JSON.stringify(child)}}`
    shorts.set(family, text)
  }
  return text
}

let last: { readonly short: string; readonly long: string } | undefined

function longOf(short: string): string {
  if (last?.short !== short) {
    const { child } = JSON.parse(short) as { child: Child }
    const [id, flow, onFailure, patience] = child
    const parents = [{ id, onFailure, wakes: false }]
    const family = { flow: flow === 0 ? id : flow, parents, waits: 'no', patience }
    last = { short, long: JSON.stringify({ family }) }
  }
  return last.long
}
