/**
 * Limits over real processes: four workers on one file, two of them killed and replaced. Judged by what the file
 * says of every run: when it started and when it ended, by the store's clock.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { NewJob, Store } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { expect, test } from 'vitest'
import { Random } from '../chaos/random.js'
import { file } from '../engine/mill.js'
import type { FlowProcessConfig } from './flow-process.js'

// The processes run the package as users get it, from dist/.
const script = fileURLToPath(new URL('../../.build/test/sqlite/flow-process.js', import.meta.url))

const jobs = 500
const rate = { max: 60, per: 400, burst: 60 }
const perKey = 2
const perGroup = 3
const leaseMs = 600
const workers = 4
const kills = 4

interface Run {
  readonly start: number
  readonly end: number
  readonly key: string | undefined
  readonly group: string | undefined
}

test('four processes keep rate and concurrency, two of them killed and replaced, and all jobs get done', async () => {
  if (!existsSync(script)) throw new Error(`${script} is missing; build it first: npm run build`)
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  const random = new Random(seed)
  const path = file()
  const store = new SqliteStore({ file: path, synchronous: 'normal' })
  await store.open()
  const fleet = new Map<string, ChildProcess>()
  const crashes: string[] = []
  let started = 0
  const hire = () => {
    const config: FlowProcessConfig = {
      file: path,
      worker: `worker-${++started}`,
      seed: seed + started,
      leaseMs,
    }
    const child = fork(script, [JSON.stringify(config)])
    fleet.set(config.worker, child)
    child.once('exit', (code, signal) => {
      fleet.delete(config.worker)
      if (signal !== 'SIGKILL') crashes.push(`${config.worker} ended by itself: ${code ?? signal}`)
    })
    return child
  }
  try {
    await store.configure({
      gate: { of: 'job', name: 'mail' },
      change: { limit: { rate }, each: { concurrency: perKey } },
      declared: true,
    })
    await store.configure({
      gate: { of: 'queue', name: 'main' },
      change: { each: { concurrency: perGroup } },
      declared: true,
    })
    for (let i = 0; i < workers; i++) hire()
    const ids: string[] = []
    const produce = async () => {
      while (ids.length < jobs) {
        const batch = Array.from({ length: random.integer(1, 20) }, () =>
          job(random, `job-${ids.length}`, ids),
        )
        await store.insert(batch)
        await sleep(random.between(0, 40))
      }
    }
    const kill = async () => {
      for (let i = 0; i < kills; i++) {
        await sleep(random.between(200, 700))
        const victim = await someoneBusy(store)
        fleet.get(victim)?.kill('SIGKILL')
        hire()
      }
    }
    await Promise.all([produce(), kill()])
    await allDone(store, ids.length, crashes)
    for (const child of fleet.values()) child.kill('SIGKILL')

    const runs = await runsOf(store, ids)
    const crashed = (await store.counts()).kinds.reduce((sum, { totals }) => sum + totals.crashed, 0)
    const told = `seed ${seed}, ${runs.length} runs of ${ids.length} jobs, ${crashed} lost`
    expect(mostInWindow(runs), told).toBeLessThanOrEqual(rate.max)
    expect(
      mostAtOnce(runs, ({ key }) => key),
      told,
    ).toBeLessThanOrEqual(perKey)
    expect(
      mostAtOnce(runs, ({ group }) => group),
      told,
    ).toBeLessThanOrEqual(perGroup)
    expect(crashed, told).toBeGreaterThan(0)
    for (const of of ['queue', 'job'] as const)
      for (const gate of (await store.gates({ of, limit: 10 })).gates) expect(gate.running, told).toBe(0)
    for (const of of ['group', 'key'] as const)
      expect((await store.gates({ of, limit: 10 })).gates, told).toEqual([])
  } finally {
    for (const child of fleet.values()) child.kill('SIGKILL')
    await store.close()
  }
}, 60_000)

function job(random: Random, id: string, ids: string[]): NewJob {
  ids.push(id)
  return {
    id,
    name: 'mail',
    queue: 'main',
    lane: random.pick([0, 2, 2, 3]),
    input: 'null',
    delay: random.chance(0.1) ? random.integer(1, 300) : 0,
    runAt: undefined,
    maxAttempts: 1_000,
    maxCrashes: 1_000,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    dedupe: undefined,
    flow: {
      gated: true,
      group: random.chance(0.7) ? `group-${random.integer(1, 8)}` : undefined,
      key: random.chance(0.7) ? `key-${random.integer(1, 12)}` : undefined,
    },
  }
}

/** A worker that has jobs now. */
async function someoneBusy(store: Store): Promise<string> {
  for (;;) {
    const { jobs: running } = await store.list({ filter: { state: 'running' }, limit: 1 })
    if (running[0]?.worker !== undefined) return running[0].worker
    await sleep(1)
  }
}

async function allDone(store: Store, count: number, crashes: readonly string[]): Promise<void> {
  const patience = Date.now() + 40_000
  for (;;) {
    const { kinds } = await store.counts()
    const completed = kinds.reduce((sum, { states }) => sum + states.completed, 0)
    if (completed === count) return
    if (crashes.length > 0) throw new Error(crashes.join('; '))
    if (Date.now() > patience) throw new Error(`only ${completed} of ${count} jobs got done`)
    await sleep(50)
  }
}

/** Every attempt that failed or was lost, and the one that completed the job. */
async function runsOf(store: Store, ids: readonly string[]): Promise<Run[]> {
  const runs: Run[] = []
  for (const id of ids) {
    const [record] = await store.get([id])
    const { key, group } = record ?? {}
    for (const { startedAt, endedAt } of (await store.trail(id))?.attempts ?? [])
      runs.push({ start: startedAt, end: endedAt, key, group })
    runs.push({ start: record?.startedAt as number, end: record?.finishedAt as number, key, group })
  }
  return runs.sort((a, b) => a.start - b.start)
}

/** The most starts in any window of the rate. */
function mostInWindow(runs: readonly Run[]): number {
  let most = 0
  let first = 0
  for (const [i, { start }] of runs.entries()) {
    while ((runs[first] as Run).start <= start - rate.per) first++
    most = Math.max(most, i - first + 1)
  }
  return most
}

/** The most of one key or group at the same time; a run that ends where another starts made room for it. */
function mostAtOnce(runs: readonly Run[], of: (run: Run) => string | undefined): number {
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
