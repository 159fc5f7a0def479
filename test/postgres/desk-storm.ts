/** Many who use a store at once, each at random: producers, workers, operators, somebody who changes settings. */
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  ClaimedJob,
  ClaimRequest,
  Command,
  ExchangeRequest,
  NewJob,
  Outcome,
  Selector,
  Settlement,
  Store,
} from 'millrace'
import type { Random } from '../chaos/random.js'
import { newJob } from '../new-job.js'
import { outcomeOf } from '../outcome.js'

const hour = 3_600_000

/** Only plain jobs and never limits, so that all of it may take the fast path. */
const steady = 'steady'
/** The same at first; what once had limits keeps to the desk, so there are several, one after the other. */
const turning = Array.from({ length: 16 }, (_, i) => `turning-${i}`)
const mixed = 'mixed'
const grouped = 'grouped'
/** Bare jobs, few at a time, for a worker of the same process that is idle. */
const handed = 'handed'

const turnMs = 120

interface Work {
  queues(): readonly string[]
  /** Jobs of one claim. */
  readonly most: number
  /** How many of them complete at once. */
  readonly success: number
}

/** Milliseconds between two turns, at least and at most. */
type Pause = readonly [number, number]

export class Storm {
  readonly inserted = new Set<string>()
  /** Completed without being kept, or removed. */
  readonly forgotten = new Set<string>()
  /** What must not have happened. */
  readonly wrong: string[] = []
  readonly #stores: readonly Store[]
  readonly #random: Random
  /** Jobs that workers have. */
  readonly #running = new Set<string>()
  /** The latest settlements. */
  readonly #past: Settlement[] = []
  /** Those who stop when it calms down, and those who stay until nothing is left to do. */
  readonly #raging: Promise<void>[] = []
  readonly #staying: Promise<void>[] = []
  #phase: 'rage' | 'calm' | 'over' = 'rage'
  #serial = 0
  readonly #begunAt = Date.now()

  constructor(stores: readonly Store[], random: Random) {
    this.#stores = stores
    this.#random = random
  }

  async rage(ms: number): Promise<void> {
    const [desk, fast, turns] = this.#stores as [Store, Store, Store]
    const random = this.#random.fork('storm')
    for (const store of [fast, turns])
      this.#rage(`producer ${store === fast}`, [0, 20], (random) => this.#producePlain(store, random))
    // Small claims, so that there are many.
    for (let i = 0; i < 2; i++) {
      this.#hire(fast, `steady worker ${i}`, { queues: () => [steady], most: 4, success: 0.97 })
      this.#hire(turns, `turning worker ${i}`, { queues: () => this.#turnings(), most: 4, success: 0.97 })
    }
    const queues = () => [random.pick([steady, ...turning]), mixed, grouped]
    this.#hire(desk, 'worker', { queues, most: 20, success: 0.5 })
    // What they end is told by count, but for the few that do not complete.
    for (const store of [desk, turns])
      this.#hire(store, `grouped worker ${store === desk}`, {
        queues: () => [grouped],
        most: 8,
        success: 0.95,
      })
    this.#handOver(fast, random)
    this.#rage('special producer', [0, 30], (random) => this.#produceSpecial(desk, random))
    this.#rage('settings', [20, 80], (random) => set(desk, this.#turning(), random))
    for (let i = 0; i < 2; i++) this.#rage(`operator ${i}`, [0, 20], (random) => this.#operate(desk, random))
    const sweeper = this.#act(
      'sweeper',
      () => this.#phase !== 'over',
      [5, 30],
      () => this.#sweep(desk),
    )
    this.#staying.push(sweeper)
    await sleep(ms)
  }

  /** Ends when nothing is left to do, or nothing goes on. */
  async calm(): Promise<void> {
    this.#phase = 'calm'
    await Promise.all(this.#raging)
    const [store] = this.#stores as [Store]
    await open(store)
    const patience = Date.now() + 30_000
    while (Date.now() < patience && (await isBusy(store))) await sleep(20)
    this.#phase = 'over'
    await Promise.all(this.#staying)
  }

  #rage(name: string, pause: Pause, turn: (random: Random) => Promise<void>): void {
    this.#raging.push(this.#act(name, () => this.#phase === 'rage', pause, turn))
  }

  async #act(
    name: string,
    goesOn: () => boolean,
    [least, most]: Pause,
    turn: (random: Random) => Promise<void>,
  ): Promise<void> {
    const random = this.#random.fork(name)
    try {
      while (goesOn()) {
        await turn(random)
        await sleep(random.between(least, most))
      }
    } catch (error) {
      this.wrong.push(`${name}: ${String(error)}`)
    }
  }

  /** A worker that asks for jobs whenever some are announced, and a producer that adds them where it is. */
  #handOver(store: Store, random: Random): void {
    const worker = 'idle worker'
    const ended = this.#hire(store, worker, { queues: () => [handed], most: 4, success: 0.9 })
    store.subscribe((news) => {
      if (news.type !== 'arriving' || !news.queues.has(handed)) return
      this.#exchange(store, worker, [], claimOf([handed], 4, random)).then(
        (claimed) => {
          for (const job of claimed) this.#start(job, ended, random, 0.9)
        },
        (error: unknown) => this.wrong.push(`${worker}: ${String(error)}`),
      )
    })
    this.#rage('handing producer', [0, 20], (random) => {
      const count = random.integer(1, 3)
      const jobs = Array.from({ length: count }, () => newJob({ id: `job-${++this.#serial}`, queue: handed }))
      return this.#insert(store, jobs)
    })
  }

  /** Returns what it is about to settle. */
  #hire(store: Store, worker: string, { queues, most, success }: Work): Settlement[] {
    const ended: Settlement[] = []
    const goesOn = () => this.#phase !== 'over' || ended.length > 0
    const works = this.#act(worker, goesOn, [0, 5], async (random) => {
      // At last there is nobody to get in the way of.
      const count = this.#phase === 'rage' ? random.integer(1, most) : 50
      const claim = this.#phase === 'over' ? undefined : claimOf(queues(), count, random)
      for (const job of await this.#exchange(store, worker, someOf(ended, random), claim))
        this.#start(job, ended, random, success)
    })
    this.#staying.push(works)
    return ended
  }

  #producePlain(store: Store, random: Random): Promise<void> {
    const jobs = Array.from({ length: random.integer(1, 12) }, () => ({
      ...this.#anyJob(random),
      queue: random.chance(0.5) ? steady : this.#turning(),
    }))
    return this.#insert(store, jobs)
  }

  #produceSpecial(store: Store, random: Random): Promise<void> {
    return this.#insert(
      store,
      Array.from({ length: random.integer(1, 6) }, () => this.#specialJob(random)),
    )
  }

  async #insert(store: Store, jobs: readonly NewJob[]): Promise<void> {
    const results = await store.insert(jobs)
    jobs.forEach(({ id }, i) => {
      if (results[i]?.status === 'inserted') this.inserted.add(id)
    })
  }

  /** The queue that has its turn now. */
  #turning(): string {
    const turn = Math.floor((Date.now() - this.#begunAt) / turnMs)
    return turning[Math.min(turn, turning.length - 1)] as string
  }

  /** At last those too that had their turn. */
  #turnings(): readonly string[] {
    return this.#phase === 'rage' ? [this.#turning()] : turning
  }

  #anyJob(random: Random): NewJob {
    return newJob({
      id: `job-${++this.#serial}`,
      queue: mixed,
      lane: random.integer(0, 3),
      delay: random.chance(0.1) ? random.integer(1, 100) : 0,
      tags: random.chance(0.2) ? ['tagged'] : undefined,
    })
  }

  #specialJob(random: Random): NewJob {
    const job = this.#anyJob(random)
    if (random.chance(0.2)) return job
    const group = random.chance(0.8) ? `group-${random.integer(1, 4)}` : undefined
    const key = random.chance(0.3) ? `key-${random.integer(1, 3)}` : undefined
    if (random.chance(0.6))
      return { ...job, name: 'grouped', queue: grouped, traffic: { gated: false, group, key } }
    const mode = random.pick(['until-done', 'replace', 'keep-last'] as const)
    return {
      ...job,
      name: 'deduped',
      dedupe: { key: `key-${random.integer(1, 5)}`, mode, window: 0, most: 0 },
    }
  }

  async #exchange(
    store: Store,
    worker: string,
    settlements: readonly Settlement[],
    claim: ClaimRequest | undefined,
  ): Promise<readonly ClaimedJob[]> {
    for (const { id } of settlements) this.#running.delete(id)
    const stale = this.#stale(settlements)
    const request = { worker, settlements: [...settlements, ...stale], claim }
    const { settled, claimed } = await store.exchange(request)
    settlements.forEach(({ id, outcome }, i) => {
      if (settled[i] === 'lost') this.wrong.push(`${id} was lost by ${worker}`)
      if (outcome.to === 'completed' && outcome.retain === 0) this.forgotten.add(id)
    })
    stale.forEach(({ id }, i) => {
      if (settled[settlements.length + i] !== 'lost') this.wrong.push(`${id} was settled twice by ${worker}`)
    })
    this.#past.push(...settlements)
    this.#past.splice(0, this.#past.length - 50)
    return this.#random.chance(0.1) ? this.#repeat(store, request, claimed) : claimed
  }

  /** What is settled again, in the same call or later. */
  #stale(settlements: readonly Settlement[]): Settlement[] {
    if (this.#past.length === 0 || !this.#random.chance(0.1)) return []
    return [...settlements.slice(0, 1), this.#random.pick(this.#past)]
  }

  /** As if the answer had been lost. One that took nothing may take something now. */
  async #repeat(
    store: Store,
    request: ExchangeRequest,
    claimed: readonly ClaimedJob[],
  ): Promise<readonly ClaimedJob[]> {
    const again = await store.exchange(request)
    if (again.settled.some((result) => result !== 'lost')) this.wrong.push('settled by a repeated exchange')
    if (claimed.length > 0 && tokensOf(again.claimed) !== tokensOf(claimed))
      this.wrong.push('a repeated claim took other jobs')
    return again.claimed
  }

  #start({ id, token }: ClaimedJob, ended: Settlement[], random: Random, success: number): void {
    if (this.#running.has(id)) this.wrong.push(`${id} runs twice`)
    this.#running.add(id)
    const outcome = random.chance(success) ? completed(random) : otherwise(random)
    setTimeout(() => ended.push({ id, token, outcome, inserts: undefined }), random.between(0, 15))
  }

  async #operate(store: Store, random: Random): Promise<void> {
    const command = random.pick(commands)
    const { affected } = await store.operate(this.#selector(random), command)
    if (command.do === 'remove') for (const id of affected) this.forgotten.add(id)
  }

  /** What is about to be claimed, what runs, what came last, or anything. */
  #selector(random: Random): Selector {
    const queue = random.pick([steady, this.#turning(), mixed, grouped, handed])
    const state = random.pick(['pending', 'pending', 'running', 'retrying', 'dead', 'completed'] as const)
    if (random.chance(0.6)) return { filter: { state, queue }, limit: 3 }
    const first = random.chance(0.5) ? Math.max(1, this.#serial - 60) : 1
    return { ids: Array.from({ length: 5 }, () => `job-${random.integer(first, this.#serial)}`) }
  }

  async #sweep(store: Store): Promise<void> {
    const { orphans } = await store.sweep({ limit: 100, keep: { completed: 1e6, dead: 1e6 } })
    for (const { id } of orphans) this.wrong.push(`${id} is an orphan`)
  }
}

function tokensOf(jobs: readonly ClaimedJob[]): string {
  const tokens = jobs.map(({ token }) => token)
  return tokens.sort().join()
}

/** Takes all of them away, or those that the fast path can settle if they come alone. */
function someOf(ended: Settlement[], random: Random): Settlement[] {
  const all = ended.splice(0)
  if (random.chance(0.4)) return all
  ended.push(...all.filter(({ outcome }) => outcome.to !== 'completed'))
  return all.filter(({ outcome }) => outcome.to === 'completed')
}

const commands: readonly Command[] = [
  { do: 'cancel', reason: 'no more', retain: hour },
  { do: 'retry', delay: 0, spacing: 0, change: {} },
  { do: 'retry', delay: 20, spacing: 1, change: { lane: 0 } },
  { do: 'promote' },
  { do: 'remove' },
]

async function set(store: Store, turning: string, random: Random): Promise<void> {
  if (random.chance(0.1)) return store.configure({ queue: handed, paused: random.chance(0.3) })
  const queue = random.pick([turning, grouped])
  const concurrency = random.pick([1, 5, null])
  const gate = { of: 'queue', name: queue } as const
  if (random.chance(0.3)) await store.configure({ queue, paused: random.chance(0.3) })
  else if (random.chance(0.2))
    await store.configure({ gate, change: { each: { concurrency } }, declared: false })
  else await store.configure({ gate, change: { limit: { concurrency } }, declared: false })
}

/** Nothing holds jobs up any more. Limits stay, and with them the counts of what runs. */
async function open(store: Store): Promise<void> {
  await store.configure({ queue: handed, paused: false })
  for (const name of [...turning, grouped]) {
    await store.configure({ queue: name, paused: false })
    const change = { limit: { concurrency: 1_000 }, each: null }
    await store.configure({ gate: { of: 'queue', name }, change, declared: false })
  }
}

async function isBusy(store: Store): Promise<boolean> {
  const { kinds } = await store.counts()
  return kinds.some(
    ({ states: { pending, running, scheduled, retrying } }) => pending + running + scheduled + retrying > 0,
  )
}

function claimOf(queues: readonly string[], count: number, random: Random): ClaimRequest {
  const from = random.chance(0.3) ? queues : [random.pick(queues)]
  return {
    token: `claim-${random.next()}`,
    lease: hour,
    room: { shared: count, own: [0, 0, 0, 0] },
    picks: [0, 1, 2, 3].flatMap((lane) => from.map((queue) => ({ queue, lane, take: count }))),
    turn: 0,
  }
}

function completed(random: Random): Outcome {
  return random.chance(0.3)
    ? outcomeOf({ to: 'completed', retain: 0 })
    : outcomeOf({ to: 'completed', retain: hour, result: '"done"' })
}

function otherwise(random: Random): Outcome {
  const delay = random.integer(0, 50)
  return random.pick([
    outcomeOf({ to: 'retrying', delay, failure, retain: hour }),
    outcomeOf({ to: 'dead', failure, retain: hour }),
    outcomeOf({ to: 'pending', spent: false, retain: hour }),
    outcomeOf({ to: 'scheduled', delay, spent: false, retain: hour }),
  ])
}

const failure = { name: 'Error', message: 'it failed', stack: undefined, code: undefined, cause: 'it failed' }
