import { bounds } from '../core/bounds.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError, queueFull } from '../core/errors.js'
import type { NewFamily } from '../core/family.js'
import { isFinal, type JobRecord, type NewJob } from '../core/job.js'
import { invalid, jobId, noUnknown } from '../core/options.js'
import { type PlannedNode, type PlanStep, planChain, planGraph, planTree } from '../core/plan.js'
import type { InsertResult } from '../core/store.js'
import { newId } from '../system/ids.js'
import { nextTurn } from '../system/turn.js'
import { batchJob, joinJob } from './built-in.js'
import type { Declarations } from './declare.js'
import type { Inspector, JobHandle } from './inspect.js'
import { linksOf } from './links.js'
import { relative } from './relative.js'
import type { Runtime } from './runtime.js'
import { undoText } from './undo.js'

export interface FlowOptions {
  /** Of the job that the flow leads to. A flow whose id exists is not added again. */
  readonly id?: string
  /**
   * How long a flow that takes more than one write may stay unfinished, if its process is lost meanwhile; then the
   * job that it leads to dies with FLOW_INCOMPLETE. Counted from its beginning. @default '10m'
   */
  readonly patience?: Duration
}

const join = { job: joinJob, input: null }

/** Jobs of one write, and characters of their inputs. A larger flow takes several, with time for others in between. */
const perWrite = { jobs: bounds.batch, text: 16 * bounds.payloadBytes }

/** Adds jobs that wait for each other. */
export class Flows {
  readonly #runtime: Runtime
  readonly #inspector: Inspector
  readonly #declarations: Declarations

  constructor(runtime: Runtime, inspector: Inspector, declarations: Declarations) {
    this.#runtime = runtime
    this.#inspector = inspector
    this.#declarations = declarations
  }

  tree<R>(root: unknown, options?: FlowOptions): Promise<JobHandle<R>> {
    return this.#build(planTree(root, join), options)
  }

  chain<R>(links: readonly unknown[], options?: FlowOptions): Promise<JobHandle<R>> {
    return this.#build(planChain(links, join), options)
  }

  async graph<R>(
    graph: { readonly nodes: Readonly<Record<string, unknown>> },
    options?: FlowOptions,
  ): Promise<JobHandle<R>> {
    noUnknown(graph, ['nodes'], 'flow')
    return this.#build(planGraph(graph.nodes, join), options)
  }

  async #build<R>(steps: Iterable<PlanStep>, options: FlowOptions = {}): Promise<JobHandle<R>> {
    noUnknown(options, ['id', 'patience'], 'flow')
    const id = options.id === undefined ? newId(this.#runtime.clock.now()) : flowId(options.id)
    const patience = milliseconds(options.patience ?? '10m', 'patience')
    const site = new BuildingSite(id)
    await this.#runtime.ready()
    // What comes next is prepared while these are on their way.
    const away: Promise<boolean>[] = []
    let goesOn = true
    try {
      for (const step of steps) {
        if ('complete' in step) site.complete(step.complete)
        else {
          if (options.id !== undefined && step.add.ordinal === 0) await this.#refuseOther(id, step.add)
          const node = this.#prepare(site, step.add)
          site.add(node instanceof Promise ? await node : node)
        }
        if (!site.isFull) continue
        goesOn = await landed(away, site.begun && !site.buildsOnLast ? this.#mostAway - 1 : 0)
        if (!goesOn) break
        if (site.begun) await nextTurn()
        const written = this.#write(site, patience, away.at(-1))
        written.catch(() => {}) // it is awaited later
        away.push(written)
      }
      if (goesOn && (await landed(away, 0))) await this.#write(site, patience)
    } catch (error) {
      await Promise.allSettled(away)
      if (site.isOurs) await this.#abandon(id)
      throw error
    }
    return this.#inspector.handle<R>(id, site.status)
  }

  /** Before anything is written: the children would become those of whatever has the id. */
  async #refuseOther(id: string, { waits }: PlannedNode): Promise<void> {
    const [record] = await this.#runtime.store.get([id])
    if (record === undefined) return
    const { name, family } = record
    const isOther = family === undefined ? waits : family.flow !== id
    if (isOther || name === batchJob.name) throw noFlow(record)
    if (waits && family?.open === false && !(await this.#hasParts(id))) throw noFlow(record)
  }

  /** Children that no step has added: a plain job whose steps have children has none. */
  async #hasParts(id: string): Promise<boolean> {
    for await (const _ of linksOf(this.#runtime, { parents: [id], given: true })) return true
    return false
  }

  /** Asynchronous where something is: a schema, or limits that the store has not heard of. */
  #prepare(site: BuildingSite, planned: PlannedNode): Prepared | Promise<Prepared> {
    const { job, input, options } = planned.spec
    const made = relative(this.#runtime, job, input, options, site.idOf(planned.ordinal))
    const isKnown = job.traffic === undefined || this.#declarations.has(job)
    if (made instanceof Promise || !isKnown) return this.#prepareLater(planned, made)
    return { planned, made }
  }

  async #prepareLater(planned: PlannedNode, made: NewJob | Promise<NewJob>): Promise<Prepared> {
    await this.#declarations.add(planned.spec.job)
    return { planned, made: await made }
  }

  /** Writes at a time; the first one goes alone, for it says whether the flow is there already. */
  get #mostAway(): number {
    return this.#runtime.store.capabilities.pipelined === true ? 2 : 1
  }

  /** Writes what has gathered; false when there is nothing left to do, because the flow is there already. */
  async #write(site: BuildingSite, patience: number, before?: Promise<boolean>): Promise<boolean> {
    const jobs = site.nodes.map((node) => ({ ...node.made, family: site.family(node, patience) }))
    const finished = site.take()
    if (jobs.length > 0) {
      const results = await this.#runtime.store.insert(jobs)
      this.#tell(jobs, results)
      site.written(jobs, results)
      if (site.isOver) return false
    }
    // Children of jobs that are sealed now may have come with that.
    await before
    for (let i = 0; i < finished.length; i += bounds.batch)
      await this.#runtime.store.operate({ ids: finished.slice(i, i + bounds.batch) }, { do: 'seal' })
    return true
  }

  #tell(jobs: readonly NewJob[], results: readonly InsertResult[]): void {
    const { events } = this.#runtime
    if (!events.wants('enqueued')) return
    jobs.forEach(({ id, name, queue }, i) => {
      const status = results[i]?.status
      if (status === 'inserted' || status === 'duplicate')
        events.emit('enqueued', { id, name, queue, duplicate: status === 'duplicate' })
    })
  }

  /** Half a flow is no flow: what was written is cancelled, the rest never comes. */
  async #abandon(id: string): Promise<void> {
    const reason = 'the flow could not be added as a whole'
    await this.#inspector.cancel({ id }, reason).catch((error: unknown) => {
      this.#runtime.events.emit('error', { error, during: 'flow' })
    })
  }
}

/** Waits until no more than so many are left; false when one of them says that there is nothing left to do. */
async function landed(away: Promise<boolean>[], most: number): Promise<boolean> {
  while (away.length > most) if (!(await away.shift())) return false
  return true
}

interface Prepared {
  readonly planned: PlannedNode
  /** Without its family, which is known when it is written. */
  readonly made: NewJob
}

/** What is ready to be written, and which jobs still miss children. */
class BuildingSite {
  readonly id: string
  /** Something of it is in the store. */
  begun = false
  /** It had been added before, and has ended. */
  isOver = false
  status: 'inserted' | 'duplicate' = 'inserted'
  nodes: Prepared[] = []
  /** Ordinals of jobs here whose children have all come. */
  #complete = new Set<number>()
  /** Ids of jobs written before, whose children are all in the next write. */
  #finished: string[] = []
  #firstHere = 0
  /** The first ordinal of the last write. */
  #lastFirst = 0
  #text = 0
  #compensated = 0
  #last: { readonly planned: PlannedNode; readonly family: NewFamily } | undefined

  constructor(id: string) {
    this.id = id
  }

  /** What is in the store began with this call: who added it before is not to lose it by an error here. */
  get isOurs(): boolean {
    return this.begun && this.status === 'inserted'
  }

  get isFull(): boolean {
    return this.nodes.length >= perWrite.jobs || this.#text >= perWrite.text
  }

  /** One that goes out beside the last write may be done before it. */
  get buildsOnLast(): boolean {
    return this.nodes.some(({ planned: { parents } }) =>
      parents.some((parent) => parent >= this.#lastFirst && parent < this.#firstHere),
    )
  }

  /** The flow's own id is that of the job that it leads to; the others follow in the order of their parts. */
  idOf(ordinal: number): string {
    return ordinal === 0 ? this.id : `${this.id}.${String(ordinal).padStart(ordinalDigits, '0')}`
  }

  add(node: Prepared): void {
    if (node.planned.spec.compensate !== undefined && ++this.#compensated > bounds.batch)
      throw tooManyToUndo()
    this.nodes.push(node)
    this.#text += node.made.input.length
  }

  complete(ordinal: number): void {
    if (ordinal >= this.#firstHere) this.#complete.add(ordinal)
    else this.#finished.push(this.idOf(ordinal))
  }

  /** Empties it for the next write; returns the ids of jobs that have all of their children now. */
  take(): string[] {
    const finished = this.#finished
    this.#lastFirst = this.#firstHere
    this.#firstHere += this.nodes.length
    this.nodes = []
    this.#text = 0
    this.#complete = new Set()
    this.#finished = []
    return finished
  }

  family({ planned, made }: Prepared, patience: number): NewFamily {
    if (this.#last !== undefined && areAlike(this.#last.planned, planned)) return this.#last.family
    const { onFailure = 'fail', compensate } = planned.spec
    const undo = compensate && undoText(compensate, made.input)
    const family: NewFamily = {
      flow: this.id,
      node: planned.node,
      parents: planned.parents.map((parent) => ({ id: this.idOf(parent), onFailure, wakes: false, undo })),
      waits: this.#waits(planned),
      patience,
      stays: planned.stays,
    }
    this.#last = { planned, family }
    return family
  }

  #waits({ ordinal, waits }: PlannedNode): NewFamily['waits'] {
    if (!waits) return 'no'
    return this.#complete.has(ordinal) ? 'sealed' : 'open'
  }

  written(jobs: readonly NewJob[], results: readonly InsertResult[]): void {
    const first = results[0]
    if (!this.begun && first !== undefined) {
      if (first.status === 'full' && first.overflow !== undefined)
        throw queueFull((jobs[0] as NewJob).queue, first.overflow)
      if (first.status === 'orphaned') throw taken(this.id)
      if (first.status === 'duplicate') this.status = 'duplicate'
      this.isOver = first.state !== undefined && isFinal(first.state)
    }
    this.begun = true
    const orphan = results.find(({ status }) => status === 'orphaned')
    if (orphan === undefined || this.status === 'duplicate') return
    throw orphan.state === undefined ? gone(this.id) : taken(this.id)
  }
}

/** Children that differ in nothing but their inputs have one family between them: there may be a hundred thousand. */
function areAlike(one: PlannedNode, other: PlannedNode): boolean {
  return (
    one.parents === other.parents &&
    isSimple(one) &&
    isSimple(other) &&
    one.stays === other.stays &&
    one.spec.onFailure === other.spec.onFailure
  )
}

function isSimple({ node, waits, spec }: PlannedNode): boolean {
  return node === undefined && !waits && spec.compensate === undefined
}

const ordinalDigits = 7

function flowId(id: string): string {
  // Room for a number, and for the name of what undoes it.
  const most = bounds.idLength - ordinalDigits - 1 - '.undo.zzzzzzzzz'.length
  if (jobId(id).length > most) throw invalid('id', id, `at most ${most} characters for a flow`, most)
  return id
}

/** What undoes them is added together with the death of their parent. */
function tooManyToUndo(): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `a flow can have ${bounds.batch} jobs with \`compensate\`; let each do more, or use a saga`,
    { field: 'compensate', limit: bounds.batch },
  )
}

function noFlow({ id, name, family }: JobRecord): MillraceError {
  const of = family === undefined || family.flow === id ? '' : ` of flow ${family.flow}`
  const what = name === batchJob.name ? 'a batch' : `a job '${name}'${of}`
  return new MillraceError('FLOW_TAKEN', `${id} is there already, and no flow but ${what}; use another id`, {
    field: 'id',
    value: id,
  })
}

function taken(id: string): MillraceError {
  return new MillraceError(
    'FLOW_TAKEN',
    `a flow '${id}' was there before, and jobs of it are kept although its last one is not; use another id, or keep the last job as long as the others`,
    { field: 'id', value: id },
  )
}

function gone(id: string): MillraceError {
  return new MillraceError(
    'FLOW_INCOMPLETE',
    `flow ${id} was cancelled, or took longer than its \`patience\`, before all of its jobs were added`,
    { field: 'id', value: id },
  )
}
