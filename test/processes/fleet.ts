/** Worker processes that share a place, killed and replaced, and what the store says afterwards of every run. */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Store } from 'millrace'
import { Random } from '../chaos/random.js'
import type { Place } from '../place.js'

/** What a process is told; its first argument. */
export interface ProcessConfig {
  readonly place: Place
  readonly worker: string
  readonly seed: number
  readonly leaseMs: number
}

/** One attempt of a job, by the store's clock. */
export interface Run {
  readonly id: string
  readonly lane: number
  readonly start: number
  readonly end: number
  readonly key: string | undefined
  readonly group: string | undefined
}

export class Fleet {
  readonly seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  readonly random = new Random(this.seed)
  readonly #store: Store
  readonly #script: string
  readonly #config: Omit<ProcessConfig, 'worker' | 'seed'>
  readonly #members = new Map<string, ChildProcess>()
  readonly #crashes: string[] = []
  #hired = 0

  /** The processes run the package as users get it, from dist/. */
  constructor(store: Store, script: string, config: Omit<ProcessConfig, 'worker' | 'seed'>) {
    this.#store = store
    this.#script = fileURLToPath(new URL(`../../.build/test/processes/${script}`, import.meta.url))
    this.#config = config
    if (!existsSync(this.#script))
      throw new Error(`${this.#script} is missing; build it first: npm run build`)
  }

  hire(): void {
    const worker = `worker-${++this.#hired}`
    const config: ProcessConfig = { ...this.#config, worker, seed: this.seed + this.#hired }
    const child = fork(this.#script, [JSON.stringify(config)])
    this.#members.set(worker, child)
    child.once('exit', (code, signal) => {
      this.#members.delete(worker)
      if (signal !== 'SIGKILL') this.#crashes.push(`${worker} ended by itself: ${code ?? signal}`)
    })
  }

  /** A worker's id begins with its name. */
  #member(id: string): ChildProcess | undefined {
    const name = [...this.#members.keys()].find((one) => id === one || id.startsWith(`${one}-`))
    return name === undefined ? undefined : this.#members.get(name)
  }

  /** Kills one that has jobs now, and hires another. Gives up when none has for this long. */
  async replaceBusy(patience: number): Promise<void> {
    const until = Date.now() + patience
    while (Date.now() < until) {
      const { jobs } = await this.#store.list({ filter: { state: 'running' }, limit: 1 })
      const victim = this.#member(jobs[0]?.worker ?? '')
      if (victim?.kill('SIGKILL')) return this.hire()
      await sleep(1)
    }
  }

  /** Kills any one, and hires another. */
  replaceAny(): void {
    const victim = this.random.pick([...this.#members.values()])
    victim.kill('SIGKILL')
    this.hire()
  }

  /** Complains of a process that ended although nobody killed it. */
  checkCrashes(): void {
    if (this.#crashes.length > 0) throw new Error(this.#crashes.join('; '))
  }

  async allDone(count: number): Promise<void> {
    const patience = Date.now() + 40_000
    for (;;) {
      const { kinds } = await this.#store.counts()
      const completed = kinds.reduce((sum, { states }) => sum + states.completed, 0)
      if (completed === count) return
      this.checkCrashes()
      if (Date.now() > patience) throw new Error(`only ${completed} of ${count} jobs got done`)
      await sleep(50)
    }
  }

  /** Every attempt that failed or was lost, and the one that completed the job, as they started. */
  async runs(ids: readonly string[]): Promise<Run[]> {
    const runs: Run[] = []
    for (const id of ids) {
      const [record] = await this.#store.get([id])
      const { key, group, lane = 0 } = record ?? {}
      for (const { startedAt, endedAt } of (await this.#store.trail(id))?.attempts ?? [])
        runs.push({ id, lane, start: startedAt, end: endedAt, key, group })
      runs.push({
        id,
        lane,
        start: record?.startedAt as number,
        end: record?.finishedAt as number,
        key,
        group,
      })
    }
    return runs.sort((a, b) => a.start - b.start)
  }

  /** Attempts that were lost with their process. */
  async lost(): Promise<number> {
    return (await this.#store.counts()).kinds.reduce((sum, { totals }) => sum + totals.crashed, 0)
  }

  killAll(): void {
    for (const child of this.#members.values()) child.kill('SIGKILL')
  }
}

/** The most of one key or group at the same time; a run that ends where another starts made room for it. */
export function mostAtOnce(runs: readonly Run[], of: (run: Run) => string | undefined): number {
  const changes = runs
    .filter((run) => of(run) !== undefined)
    .flatMap((run) => [
      { at: run.start, change: 1, of: of(run) as string },
      { at: run.end, change: -1, of: of(run) as string },
    ])
    .sort((a, b) => a.at - b.at || a.change - b.change)
  const running = new Map<string, number>()
  let most = 0
  for (const { change, of: name } of changes) {
    const count = (running.get(name) ?? 0) + change
    running.set(name, count)
    most = Math.max(most, count)
  }
  return most
}
