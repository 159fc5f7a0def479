/**
 * Dedupe: jobs of one definition with the same key make way for each other. Which one stands is decided when a
 * job is inserted, by what became of the one that has the key.
 */
import { isFinal, type JobState } from '../job.js'
import { clockSlack } from './set-back.js'

export const dedupeModes = ['until-done', 'throttle', 'debounce', 'replace', 'keep-last'] as const

/**
 * - `until-done`: the first one stands until it has ended.
 * - `throttle`: the first one stands for `window`, whether it has ended or not.
 * - `debounce`: the last one wins, and starts when none has come for `window`, or at the latest after `most`.
 * - `replace`: the last one wins while it waits.
 * - `keep-last`: the same, and one waits while another runs.
 *
 * Where the last one wins, a job that waits, also for a retry, gets the new input and keeps its id; so `jobId` and the
 * keys of steps alone do not tell a provider which input an earlier attempt had. One that has finished a step is
 * cancelled instead, and the new one has its own id.
 */
export type DedupeMode = (typeof dedupeModes)[number]

export interface Dedupe {
  readonly key: string
  readonly mode: DedupeMode
  /** Milliseconds, for `throttle` and `debounce`. */
  readonly window: number
  /** Milliseconds, for `debounce`. */
  readonly most: number
}

/** Who has the key. */
export interface KeyHolder {
  readonly id: string
  /** When it got the key. */
  readonly since: number
}

export type DedupeVerdict =
  /** It gets the key, and starts no earlier than `delay` from now. */
  | { readonly do: 'insert'; readonly delay: number }
  | { readonly do: 'keep' }
  /** The same as `insert`; the holder, which has taken steps for its own input, is cancelled. */
  | { readonly do: 'supersede'; readonly delay: number }
  /** The holder becomes what the new one is, but for its id; due then instead of when the new one says, if given. */
  | { readonly do: 'replace'; readonly dueAt: number | undefined }

/** `job` is that of the holder; undefined when it exists no more. */
export function judgeDuplicate(
  dedupe: Dedupe,
  holder: KeyHolder | undefined,
  job: { readonly state: JobState; readonly stepped: boolean } | undefined,
  now: number,
): DedupeVerdict {
  const state = job?.state
  const insert = { do: 'insert', delay: dedupe.mode === 'debounce' ? dedupe.window : 0 } as const
  if (holder === undefined) return insert
  if (newestWins(dedupe.mode) && isWaiting(state) && job?.stepped) return { ...insert, do: 'supersede' }
  switch (dedupe.mode) {
    case 'until-done':
      return state === undefined || isFinal(state) ? insert : { do: 'keep' }
    case 'throttle':
      return now < holder.since + dedupe.window && holder.since <= now + clockSlack ? { do: 'keep' } : insert
    case 'debounce':
      if (!isWaiting(state)) return insert
      return { do: 'replace', dueAt: Math.min(now + dedupe.window, holder.since + dedupe.most) }
    case 'replace':
    case 'keep-last':
      return isWaiting(state) ? { do: 'replace', dueAt: undefined } : insert
  }
}

/** Under these the newest input must have the last word: an older job does not come back once a newer has the key. */
export function newestWins(mode: DedupeMode): boolean {
  return mode === 'debounce' || mode === 'replace' || mode === 'keep-last'
}

/**
 * Why a run that would come back is cancelled instead. One that is cancelled or removed itself lets go of the
 * key before, so that nobody gives way to it.
 */
export const superseded = 'a newer job with the same dedupe key stands'

function isWaiting(state: JobState | undefined): boolean {
  return state === 'pending' || state === 'scheduled' || state === 'retrying' || state === 'blocked'
}

/** Of a job that would come back: it has its key still, or the key is free, or a newer one has it. */
export function onReturn(holder: KeyHolder | undefined, id: string): 'keep' | 'take' | 'give way' {
  if (holder === undefined) return 'take'
  return holder.id === id ? 'keep' : 'give way'
}

/** Whether a job that lives again gets its key: unless another has it that waits or runs. */
export function takesKeyAgain(holder: KeyHolder | undefined, state: JobState | undefined): boolean {
  return holder === undefined || state === undefined || isFinal(state)
}

/** Never since before it came, which is how the job of a holder is known. */
export function heldSince(createdAt: number, now: number): number {
  return Math.max(createdAt, now)
}

/** When it is worth a look whether anybody still needs to know who has the key. */
export function holderExpiresAt({ mode, window }: Dedupe, now: number): number {
  return now + (mode === 'throttle' ? window : lookEvery)
}

/** The key is free when nobody asked meanwhile and its job has ended. */
export const lookEvery = 600_000
