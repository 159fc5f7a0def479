import { MillraceError, type Store } from 'millrace'
import type {
  AcquireRequest,
  ClaimedJob,
  ExchangeRequest,
  ExchangeResult,
  ExtendRequest,
  ExtendResult,
  GateQuery,
  NewJob,
  Setting,
  StoreTransaction,
} from './contract.js'
import type { Doom, FailPoint } from './fail-points.js'
import type { Journal, Lease, SettledOutcome } from './journal.js'
import type { Random } from './random.js'

export interface Sabotage {
  readonly doom: Doom
  /** Starts the clock of a thread that kills this process. */
  readonly kill?: ((delayMs: number) => void) | undefined
  /** The longest such clock. */
  readonly killWithinMs?: number
  /** Whether this exchange's answer becomes an error. */
  readonly dropReply?: () => boolean
  readonly random: Random
}

/**
 * The engine's store with a witness beside it: writes down each claim and each settlement, tried and
 * answered, and dies at the armed fail points. It changes nothing that passes through.
 */
export class RecordingStore implements Store {
  readonly #inner: Store
  readonly #journal: Journal
  readonly #sabotage: Sabotage | undefined
  readonly #leases = new Map<string, Lease>()
  #draining = false

  constructor(inner: Store, journal: Journal, sabotage?: Sabotage) {
    this.#inner = inner
    this.#journal = journal
    this.#sabotage = sabotage
  }

  get capabilities() {
    return this.#inner.capabilities
  }

  /** The last lease under which this process claimed a job. */
  leaseOf(id: string): Lease | undefined {
    return this.#leases.get(id)
  }

  /** From now on every exchange passes the fail point `drain`. */
  draining(): void {
    this.#draining = true
  }

  insert(jobs: readonly NewJob[], tx?: unknown) {
    this.#journal.write(...jobs.map(tried))
    return this.#inner.insert(jobs, tx)
  }

  /** Not async: an engine that throws instead of rejecting must do so here too. */
  exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const outcomes = outcomesOf(request)
    const added = request.settlements.map((settlement) => settlement.inserts ?? [])
    this.#journal.write(
      ...added.flat().map(tried),
      ...outcomes.map((outcome) => ({ e: 'settle-try' as const, ...outcome })),
    )
    this.#pass(request, outcomes, 'before')
    return this.#inner.exchange(request).then((result) => {
      this.#journal.write(
        ...outcomes.map((outcome, i) => ({
          e: 'settle-result' as const,
          ...outcome,
          result: result.settled[i] ?? 'lost',
        })),
        ...added.flatMap((jobs, i) => jobs.map((job) => insertedWith(job, result.settled[i]))),
        ...result.claimed.map((job) => ({ e: 'claim' as const, ...this.#remember(job, request.worker) })),
      )
      this.#pass(request, outcomes, 'after')
      if (result.claimed.length > 0) this.#sabotage?.doom.at('claimed')
      this.#dropReply(request)
      return result
    })
  }

  extend(request: ExtendRequest): Promise<ExtendResult> {
    const doom = request.held.length > 0 ? this.#sabotage?.doom : undefined
    const steps = stepsOf(request)
    const point = stepPoint(steps)
    const added = request.held.flatMap(({ id, inserts = [] }) => inserts.map((job) => ({ by: id, job })))
    this.#journal.write(...added.map(({ job }) => tried(job)))
    doom?.at('renewal-before')
    if (point !== undefined) doom?.at(`${point}-before`)
    return this.#inner.extend(request).then((result) => {
      const kept = steps.filter(({ id }) => !result.lost.includes(id))
      this.#journal.write(...kept.map((step) => ({ e: 'step-kept' as const, ...step })))
      this.#journal.write(
        ...added.map(({ by, job }) => insertedWith(job, result.lost.includes(by) ? 'lost' : 'applied')),
      )
      doom?.at('renewal-after')
      if (point !== undefined) doom?.at(`${point}-after`)
      return result
    })
  }

  #remember(job: ClaimedJob, worker: string): Lease {
    const { id, token, attempt, lane, startedAt } = job
    const lease = { id, token, attempt, lane, claimedAt: startedAt, worker }
    this.#leases.set(id, lease)
    return lease
  }

  #pass(request: ExchangeRequest, outcomes: readonly SettledOutcome[], when: 'before' | 'after'): void {
    if (this.#sabotage === undefined) return
    const { doom, kill, killWithinMs = 0, random } = this.#sabotage
    for (const point of pointsOf(outcomes, when)) doom.at(point)
    if (this.#draining) doom.at('drain')
    if (when === 'before' && kill !== undefined && doom.strikes('mid-commit')) {
      doom.announce('mid-commit')
      kill(random.between(0, killWithinMs))
    }
    if (request.rescue === true) doom.at(`rescue-${when}`)
  }

  /** The network's oldest trick: the work was done and the answer is an error. */
  #dropReply({ rescue }: ExchangeRequest): void {
    if (rescue === true || this.#sabotage?.dropReply?.() !== true) return
    throw new MillraceError('STORE_FAILED', 'chaos: the reply was dropped')
  }

  open() {
    return this.#inner.open()
  }

  close() {
    return this.#inner.close()
  }

  sweep(request: Parameters<Store['sweep']>[0]) {
    return this.#inner.sweep(request)
  }

  operate(selector: Parameters<Store['operate']>[0], command: Parameters<Store['operate']>[1]) {
    return this.#inner.operate(selector, command)
  }

  configure(setting: Setting) {
    return this.#inner.configure(setting)
  }

  acquire(request: AcquireRequest) {
    return this.#inner.acquire(request)
  }

  gates(query: GateQuery) {
    return this.#inner.gates(query)
  }

  schedule(changes: Parameters<Store['schedule']>[0]) {
    const fired = changes.map((change) => (change.do === 'advance' ? change.jobs : []))
    const doom = fired.flat().length > 0 ? this.#sabotage?.doom : undefined
    this.#journal.write(...fired.flat().map(tried))
    doom?.at('advance-before')
    return this.#inner.schedule(changes).then((results) => {
      const applied = fired.filter((_, i) => results[i]?.status === 'applied').flat()
      this.#journal.write(...applied.map(({ id }) => ({ e: 'enqueue-ack' as const, id })))
      if (applied.length > 0) doom?.at('advance-after')
      return results
    })
  }

  schedules(query: Parameters<Store['schedules']>[0]) {
    return this.#inner.schedules(query)
  }

  signal(signals: Parameters<Store['signal']>[0]) {
    return this.#inner.signal(signals)
  }

  guard(request: Parameters<Store['guard']>[0]) {
    return this.#inner.guard(request)
  }

  /** A settlement in a transaction is a settlement. */
  async begin(): Promise<StoreTransaction> {
    const transaction = await this.#inner.begin()
    const settle: StoreTransaction['settle'] = async (worker, settlement) => {
      const request: ExchangeRequest = { worker, settlements: [settlement], claim: undefined }
      const outcomes = outcomesOf(request)
      this.#journal.write(...outcomes.map((outcome) => ({ e: 'settle-try' as const, ...outcome })))
      this.#pass(request, outcomes, 'before')
      const result = await transaction.settle(worker, settlement)
      this.#journal.write(...outcomes.map((outcome) => ({ e: 'settle-result' as const, ...outcome, result })))
      this.#pass(request, outcomes, 'after')
      return result
    }
    return {
      tx: transaction.tx,
      settle,
      report: (worker, held) => transaction.report(worker, held),
      rollback: () => transaction.rollback(),
    }
  }

  links(query: Parameters<Store['links']>[0]) {
    return this.#inner.links(query)
  }

  get(ids: readonly string[]) {
    return this.#inner.get(ids)
  }

  trail(id: string) {
    return this.#inner.trail(id)
  }

  list(query: Parameters<Store['list']>[0]) {
    return this.#inner.list(query)
  }

  counts() {
    return this.#inner.counts()
  }

  causes() {
    return this.#inner.causes()
  }

  subscribe(listener: Parameters<Store['subscribe']>[0]) {
    return this.#inner.subscribe(listener)
  }
}

function outcomesOf({ settlements, rescue = false }: ExchangeRequest): SettledOutcome[] {
  return settlements.map(({ id, token, outcome }) => ({
    id,
    token,
    to: outcome.to,
    delay: outcome.delay,
    rescue,
    ...(outcome.idle && { idle: true }),
  }))
}

function pointsOf(outcomes: readonly SettledOutcome[], when: 'before' | 'after'): FailPoint[] {
  const points: FailPoint[] = []
  for (const { to, rescue } of outcomes) {
    if (rescue) continue
    if (to === 'completed') points.push(when === 'before' ? 'handler-done' : 'settle-sent')
    if (to === 'retrying') points.push(`retry-${when}`)
    if (to === 'dead') points.push(`dead-${when}`)
  }
  return points
}

/** Steps whose memo this writes: a failed try of a compensation is not its end. */
function stepsOf({ held }: ExtendRequest): { id: string; name: string }[] {
  return held.flatMap(({ id, steps = [] }) =>
    steps
      .filter(({ open, value }) => !open && !value?.includes('"failed"'))
      .map(({ name }) => ({ id, name: name.replace(/#\d+$/, '') })),
  )
}

function stepPoint(steps: readonly { name: string }[]): 'step' | 'undo' | undefined {
  if (steps.length === 0) return undefined
  return steps.some(({ name }) => name.startsWith('undo:')) ? 'undo' : 'step'
}

function tried(job: NewJob) {
  const delay = job.runAt === undefined ? job.delay : Math.max(0, job.runAt - Date.now())
  return { e: 'enqueue-try' as const, id: job.id, lane: job.lane, delay }
}

/** A job added by a handler exists if and only if the handler's settlement was applied. */
function insertedWith(job: NewJob, settled: string | undefined) {
  return settled === 'applied'
    ? { e: 'enqueue-ack' as const, id: job.id }
    : { e: 'enqueue-refused' as const, id: job.id, code: 'LEASE_LOST' }
}
