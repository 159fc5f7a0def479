/** What a flow may be: each input, and what undoes each job, typed by its definition; names of nodes checked. */
import type { JobDefinition } from '../core/definition.js'
import type { FailurePolicy } from '../core/family.js'
import type { AnyNode, NodeOptions } from '../core/plan.js'

type InputOf<J> = J extends JobDefinition<infer I, infer _O, infer _R> ? I : never
type ResultOf<J> = J extends JobDefinition<infer _I, infer _O, infer R> ? R : never

interface NodeShape<J> {
  readonly job: J
  readonly input: InputOf<J>
  readonly options?: NodeOptions
  /** What it means for those that wait for this job when it dies or is cancelled. @default 'fail' */
  readonly onFailure?: FailurePolicy
  /**
   * Undoes this job, if it has completed, when a job with `onFailure: 'compensate'` fails that is needed by the same
   * one, directly or not, and nothing else has use for it. Gets its input and result. What stands between them has
   * to be kept until then. The id of the job that undoes begins with this job's id and `.undo`.
   */
  readonly compensate?: JobDefinition<
    { readonly input: InputOf<J>; readonly result: ResultOf<J> },
    // biome-ignore lint/suspicious/noExplicitAny: what becomes of the input inside does not matter
    any,
    unknown
  >
}

export type AnyFlow = AnyNode | { readonly nodes: Readonly<Record<string, AnyNode>> }

/** A tree or a graph. */
export type Flow<T> = T extends { readonly nodes: infer N }
  ? { readonly nodes: FlowGraph<N> } & Unknown<Exclude<keyof T, 'nodes'>>
  : FlowTree<T>

/** Names that mean nothing in a flow, such as a misspelt `children`: no value is right for them. */
type Unknown<K extends PropertyKey> = { readonly [P in K]?: NotPartOfAFlow }

interface NotPartOfAFlow {
  readonly [notPartOfAFlow]: never
}

declare const notPartOfAFlow: unique symbol

/** A job with those that it waits for; each input is typed by its own job. */
export type FlowTree<T> = T extends { readonly job: infer J }
  ? NodeShape<J> &
      Unknown<Exclude<keyof T, keyof NodeShape<J> | 'children'>> & {
        readonly children?: T extends { readonly children?: infer C } ? FlowChildren<C> : never
      }
  : never

type FlowChildren<C> = C extends readonly unknown[]
  ? { readonly [K in keyof C]: FlowTree<C[K]> }
  : C extends Iterable<infer T>
    ? Iterable<FlowTree<T>>
    : C extends undefined
      ? undefined
      : never

/** Named jobs, each after those that it names. */
export type FlowGraph<N> = {
  readonly [K in keyof N]: N[K] extends { readonly job: infer J }
    ? NodeShape<J> &
        Unknown<Exclude<keyof N[K], keyof NodeShape<J> | 'after'>> & {
          readonly after?: readonly After<N[K], Exclude<keyof N, K>>[]
        }
    : never
}

/** Names that are known only at run time are checked then. */
type After<T, Others> = T extends { readonly after?: readonly (infer A)[] }
  ? string extends A
    ? string
    : Others
  : Others

/** Jobs one after the other. */
export type FlowChain<C> = {
  readonly [K in keyof C]: C[K] extends { readonly job: infer J }
    ? NodeShape<J> & Unknown<Exclude<keyof C[K], keyof NodeShape<J>>>
    : never
}

export type FlowResult<T> = T extends { readonly job: infer J } ? ResultOf<J> : unknown
