/**
 * What a flow consists of, in the order in which it is written: a job before those that it waits for, so that it
 * is there when they come. Trees are walked as they are needed, never as a whole: children may come from a
 * generator, a hundred thousand of them.
 */
import { bounds } from './bounds.js'
import { checkDefinition, type EnqueueOptions, type JobDefinition } from './definition.js'
import { MillraceError } from './errors.js'
import { type FailurePolicy, failurePolicies } from './family.js'
import { invalid, name, noUnknownIn, oneOf } from './options.js'

/** Options of a job in a flow: its place and time are given by the flow. */
export type NodeOptions = Omit<EnqueueOptions, 'id' | 'delay' | 'runAt' | 'dedupe' | 'signal'>

// biome-ignore lint/suspicious/noExplicitAny: a flow has jobs of every type; `FlowTree` checks each with its input
export type AnyNode = NodeBase<JobDefinition<any, any, any>>

interface NodeBase<Job> {
  readonly job: Job
  readonly input?: unknown
  readonly options?: NodeOptions
  /** What it means for those that wait for this job when it dies or is cancelled. @default 'fail' */
  readonly onFailure?: FailurePolicy
  /**
   * Undoes this job, if it has completed, when the flow fails at a job with `onFailure: 'compensate'`. Its input is
   * `{ input, result }` of this job. Jobs that others of such a flow come before are kept until the flow is over.
   */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly compensate?: JobDefinition<any, any, any>
  readonly children?: Iterable<unknown>
  readonly after?: readonly string[]
}

export const nodeOptions: readonly (keyof NodeOptions)[] = [
  'queue',
  'priority',
  'maxAttempts',
  'maxCrashes',
  'timeout',
  'retain',
  'backoff',
  'group',
  'key',
  'tags',
  'metadata',
]

export function cannotDedupe(job: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `job '${job}' has a dedupe key, and in a flow no job can stand for another; use a definition without one`,
    { field: 'dedupe', value: job },
  )
}

/** One job of a flow. */
export interface PlannedNode {
  readonly ordinal: number
  readonly node: string | undefined
  readonly spec: AnyNode
  /** Those that wait for it, by their ordinals. */
  readonly parents: readonly number[]
  readonly waits: boolean
  /** See `NewFamily`. */
  readonly stays: boolean
}

/** Either the next job, or the word that all children of an earlier one have come. */
export type PlanStep = { readonly add: PlannedNode } | { readonly complete: number }

/** `join` is the last job where the failure of the given one is to undo the others. */
export function* planTree(root: unknown, join: AnyNode): Generator<PlanStep> {
  let count = 0
  const last = checkNode(root, 'flow', treeFields)
  const undoes = treeUndoes(root)
  if (last.onFailure === 'compensate') {
    yield joinStep(join, last)
    count = 1
    yield* walk(root, [0], 'flow')
    yield { complete: 0 }
  } else {
    yield* walk(root, [], 'flow')
  }

  function* walk(raw: unknown, parents: readonly number[], path: string): Generator<PlanStep> {
    const spec = checkNode(raw, path, treeFields)
    const ordinal = count++
    if (count > bounds.flow) throw tooMany()
    if (path.length > deepest) throw tooDeep(path)
    yield add(ordinal, undefined, spec, parents, spec.children !== undefined, undoes)
    if (spec.children === undefined) return
    let index = 0
    const here = [ordinal]
    for (const child of spec.children) yield* walk(child, here, `${path}.children[${index++}]`)
    if (index === 0) throw invalid(`${path}.children`, [], 'at least one child, or no `children`')
    yield { complete: ordinal }
  }
}

/** Of paths like `flow.children[0].children[0]`: some hundred levels. */
const deepest = 4_096

/** Each after the one before it. */
export function* planChain(links: readonly unknown[], join: AnyNode): Generator<PlanStep> {
  if (!Array.isArray(links) || links.length === 0)
    throw invalid('chain', links, 'an array of at least one job')
  if (links.length > bounds.flow) throw tooMany()
  const specs = links.map((link, i) => checkNode(link, `chain[${i}]`, nodeFields))
  const last = specs.at(-1) as AnyNode
  const joins = last.onFailure === 'compensate' ? 1 : 0
  const undoes = mayUndo(specs)
  if (joins === 1) yield joinStep(join, last)
  for (const [i, spec] of specs.reverse().entries()) {
    const ordinal = i + joins
    const isFirst = i === specs.length - 1
    const parents = ordinal === 0 ? [] : [ordinal - 1]
    yield add(ordinal, undefined, spec, parents, !isFirst, undoes)
    if (ordinal > 0) yield { complete: ordinal - 1 }
  }
}

/** Runs where the given one does. */
function joinStep(join: AnyNode, last: AnyNode): PlanStep {
  const spec = { ...join, options: { queue: queueOf(last) } }
  return add(0, undefined, spec, [], true, true)
}

/** What comes before a job is found by it; who else waits for one that can be undone, by that one. */
function add(
  ordinal: number,
  node: string | undefined,
  spec: AnyNode,
  parents: readonly number[],
  waits: boolean,
  undoes: boolean,
): PlanStep {
  const isShared = spec.compensate !== undefined && parents.length > 1
  const stays = undoes && parents.length > 0 && (waits || isShared)
  return { add: { ordinal, node, spec, parents, waits, stays } }
}

function mayUndo(specs: readonly AnyNode[]): boolean {
  return (
    specs.some(({ compensate }) => compensate !== undefined) &&
    specs.some(({ onFailure }) => onFailure === 'compensate')
  )
}

/** The same of a tree. What comes from a generator is not known before, and may. */
function treeUndoes(root: unknown): boolean {
  const specs = [root as AnyNode]
  for (const { children } of specs) {
    if (children === undefined) continue
    if (!Array.isArray(children) || specs.length + children.length > bounds.flow) return true
    for (const child of children) if (typeof child === 'object' && child !== null) specs.push(child)
  }
  return mayUndo(specs)
}

/** Named jobs, each after those that it names. `join` is the last one where several have none after them. */
export function* planGraph(nodes: Readonly<Record<string, unknown>>, join: AnyNode): Generator<PlanStep> {
  const specs = new Map(
    Object.entries(nodes).map(([key, raw]) => [
      name(key, 'nodes'),
      checkNode(raw, `nodes.${key}`, graphFields),
    ]),
  )
  if (specs.size === 0) throw invalid('nodes', nodes, 'at least one job')
  if (specs.size > bounds.page) throw invalid('nodes', specs.size, `at most ${bounds.page} jobs`, bounds.page)
  const dependents = dependentsOf(specs)
  const sinks = [...specs.keys()].filter((key) => dependents.get(key)?.length === 0)
  const order = inOrder(specs, dependents, sinks)
  const ordinals = new Map<string, number>()
  const last = specs.get(sinks[0] as string) as AnyNode
  const joins = sinks.length > 1 || last.onFailure === 'compensate'
  const undoes = mayUndo([...specs.values()])
  if (joins) yield joinStep(join, last)
  for (const key of order) {
    const spec = specs.get(key) as AnyNode
    const ordinal = ordinals.size + (joins ? 1 : 0)
    ordinals.set(key, ordinal)
    const waiters = (dependents.get(key) ?? []).map((other) => ordinals.get(other) as number)
    const parents = waiters.length === 0 && joins ? [0] : waiters
    yield add(ordinal, key, spec, parents, (spec.after ?? []).length > 0, undoes)
  }
  if (joins) yield { complete: 0 }
  for (const [key, ordinal] of ordinals)
    if ((specs.get(key)?.after ?? []).length > 0) yield { complete: ordinal }
}

function queueOf({ options, job }: AnyNode): string {
  return options?.queue ?? job.policy.queue
}

function dependentsOf(specs: ReadonlyMap<string, AnyNode>): Map<string, string[]> {
  const dependents = new Map<string, string[]>([...specs.keys()].map((key) => [key, []]))
  for (const [key, { after = [] }] of specs) {
    if (new Set(after).size !== after.length) throw invalid(`nodes.${key}.after`, after, 'each name once')
    for (const other of after) {
      if (other === key) throw invalid(`nodes.${key}.after`, other, 'another node: it cannot wait for itself')
      const list = dependents.get(other)
      if (list === undefined)
        throw invalid(`nodes.${key}.after`, other, `one of the nodes: ${[...specs.keys()].join(', ')}`)
      list.push(key)
    }
  }
  return dependents
}

/** Every job behind all those that wait for it. */
function inOrder(
  specs: ReadonlyMap<string, AnyNode>,
  dependents: ReadonlyMap<string, readonly string[]>,
  sinks: readonly string[],
): string[] {
  const open = new Map([...dependents].map(([key, list]) => [key, list.length]))
  const order = [...sinks]
  for (const key of order) {
    for (const other of specs.get(key)?.after ?? []) {
      const left = (open.get(other) as number) - 1
      open.set(other, left)
      if (left === 0) order.push(other)
    }
  }
  if (order.length < specs.size) {
    const stuck = [...specs.keys()].filter((key) => !order.includes(key))
    throw new MillraceError(
      'INVALID_OPTION',
      `nodes wait for each other in a circle, so that none could ever run: ${stuck.join(', ')}`,
      { field: 'nodes', value: stuck },
    )
  }
  return order
}

const nodeFields = ['job', 'input', 'options', 'onFailure', 'compensate']
const treeFields = [...nodeFields, 'children']
const graphFields = [...nodeFields, 'after']

function checkNode(raw: unknown, path: string, known: readonly string[]): AnyNode {
  noUnknownIn(path, raw as object, known)
  const spec = raw as AnyNode
  checkDefinition(spec.job, undefined, `${path}.job`)
  if (spec.compensate !== undefined) checkDefinition(spec.compensate, undefined, `${path}.compensate`)
  if (spec.compensate?.traffic?.dedupe !== undefined) throw cannotDedupe(spec.compensate.name)
  if (spec.options !== undefined) noUnknownIn(`${path}.options`, spec.options, nodeOptions)
  if (spec.onFailure !== undefined) oneOf(spec.onFailure, failurePolicies, `${path}.onFailure`)
  return spec
}

function tooMany(): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `a flow has at most ${bounds.flow} jobs; split it, or let its jobs take several things each`,
    { field: 'flow', limit: bounds.flow },
  )
}

function tooDeep(path: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `the flow is nested too deep, at ${path.slice(-60)}; use mill.chain`,
    {
      field: 'flow',
    },
  )
}
