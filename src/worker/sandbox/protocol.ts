/**
 * What a worker and a sandbox say to each other. Values cross as text of `jsonCodec`, which keeps them exactly
 * or refuses them with the path of the offending one, as it does for what is stored; a structured clone would
 * silently turn a class instance into a plain object. All else is plain data that threads and processes carry
 * alike.
 */
import type { WhichChildren } from '../../core/children.js'
import type { Directive } from '../../core/definition.js'
import type { Duration } from '../../core/duration.js'
import type { LogLevel } from '../../core/job.js'
import type { StepRecord, Wait } from '../../core/step.js'
import type { FanClose } from '../../core/store.js'
import type { Thrown } from './thrown.js'

/** One job in one sandbox; numbered, because what an earlier one left behind may still speak. */
export interface Assignment {
  readonly task: number
  readonly url: string
  readonly export: string
  readonly input: string | undefined
  readonly maxPayload: number
  readonly maxResult: number
  readonly jobId: string
  readonly name: string
  readonly queue: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly idempotencyKey: string
  readonly createdAt: number
  /** The store's clock when it was assigned. */
  readonly now: number
  readonly tags: readonly string[]
  readonly metadata: string | undefined
}

export type ToChild =
  | ({ readonly type: 'run' } & Assignment)
  | { readonly type: 'abort'; readonly task: number; readonly reason: Thrown }
  | ({ readonly type: 'answer'; readonly task: number; readonly id: number } & Answer)

export type FromChild =
  /** At once on an abort, before the handler's own listeners: its event loop turns. */
  | { readonly type: 'heard'; readonly task: number }
  | { readonly type: 'report'; readonly task: number; readonly report: Report }
  | ({ readonly type: 'ask'; readonly task: number; readonly id: number } & Question)
  /** The steps are to be written with the outcome, whatever that is. */
  | {
      readonly type: 'ended'
      readonly task: number
      readonly ending: Ending
      readonly steps: readonly StepRecord[]
    }
  /** Its last words: an error that nobody caught. */
  | { readonly type: 'crashed'; readonly task: number; readonly error: Thrown }

/** What was reported since the last one: the newest progress, and the lines of the log. */
export interface Report {
  readonly progress?: string | undefined
  readonly logs: readonly { readonly text: string; readonly level: LogLevel }[]
}

/** What only the worker can do for a handler. Each verb has its own fields; the answer is one value. */
export type Question =
  | {
      readonly verb: 'enqueue'
      readonly job: string
      readonly input: string
      readonly options: string | undefined
    }
  | { readonly verb: 'children'; readonly which: WhichChildren; readonly cursor: string | undefined }
  /** Inputs and options as text. Answered when they are stored. */
  | {
      readonly verb: 'add children'
      readonly fan: string
      readonly job: string
      readonly inputs: string
      readonly ids: readonly string[]
      readonly options: string | undefined
      readonly steps: readonly StepRecord[]
    }
  /** Steps of earlier runs; values of steps cross as text too. */
  | { readonly verb: 'read steps' }
  /** Answered when they are stored. */
  | { readonly verb: 'replays' }
  | { readonly verb: 'close fan'; readonly close: FanClose }
  | { readonly verb: 'write steps'; readonly steps: readonly StepRecord[] }

export type Answer = { readonly value: string } | { readonly error: Thrown }

export type Ending =
  | { readonly how: 'returned'; readonly result: string | undefined }
  | {
      readonly how: 'directed'
      readonly kind: Directive['kind']
      readonly delay: Duration
      readonly reason: string
      readonly cause: Thrown | undefined
    }
  | { readonly how: 'waits'; readonly wait: Wait }
  /** Threw the reason of its own signal. */
  | { readonly how: 'stopped' }
  | { readonly how: 'threw'; readonly error: Thrown }

/** Handlers can write to the same channel; what is not of this protocol is not for us. */
export function isFromChild(message: unknown): message is FromChild {
  return (
    typeof message === 'object' &&
    message !== null &&
    typeof (message as FromChild).task === 'number' &&
    ['heard', 'report', 'ask', 'ended', 'crashed'].includes((message as FromChild).type)
  )
}
