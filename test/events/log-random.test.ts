/** Random appends in and out of transactions, against a model; and many of them at once, with readers beside them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Append, AppendResult, EventLog, Expected, StoredEvent } from '../../src/events/log.js'
import { Random } from '../chaos/random.js'
import {
  engine,
  type FreshLog,
  freshLog,
  isShared,
  nameOf,
  namesOf,
  newAppend,
  page,
  versionOf,
} from './logs.js'

const runs = Number(process.env.MILLRACE_RUNS ?? (engine === 'postgres' ? 4 : 25))
const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
const streams = ['a', 'b-1', 'b-2', 'c']

test(`${runs} random runs of appends come out as a model foretells`, async () => {
  for (let run = 0; run < runs; run++)
    await alone(await freshLog(), new Random(seed + run), `MILLRACE_SEED=${seed + run}`)
}, 120_000)

async function alone(fresh: FreshLog, random: Random, told: string): Promise<void> {
  const { log } = fresh
  const model = new Model()
  const others = isShared ? [log, await fresh.another()] : [log]
  for (let step = 0; step < 40; step++) {
    const one = random.pick(others)
    if (random.chance(0.3))
      await inTransaction(random.chance(0.5) && isShared ? fresh : { begin: () => one.begin() })
    else if (random.chance(0.1)) await removeSome(one)
    else await call(model, (appends) => one.append(appends))
    expect(await namesOf(random.pick(others), { limit: random.integer(1, 50) }), told).toEqual(model.names)
  }
  for (const stream of streams) expect(await versionOf(log, stream), told).toBe(model.version(stream))

  async function call(known: Model, append: (appends: Append[]) => Promise<AppendResult[]>): Promise<void> {
    const appends = Array.from({ length: random.integer(1, 4) }, () => known.propose(random))
    const results = await append(appends)
    const expected = appends.map((given) => known.append(given))
    expect(
      results.map(outcomeOf),
      `${told} ${JSON.stringify(appends.map(({ expected }) => expected))}`,
    ).toEqual(expected)
  }

  async function inTransaction({ begin }: Pick<FreshLog, 'begin'>): Promise<void> {
    const transaction = await begin()
    const copy = model.copy()
    for (let i = random.integer(1, 3); i > 0; i--)
      await call(copy, async (appends) => log.append(appends, transaction.tx))
    if (random.chance(0.5)) {
      await transaction.commit()
      model.become(copy)
    } else {
      await transaction.rollback()
    }
  }

  async function removeSome(one: EventLog): Promise<void> {
    const { events } = await page(one, { limit: 200 })
    const gone = events.filter(() => random.chance(0.3))
    await one.remove(gone.map(({ position }) => position))
    model.remove(gone.map(({ id }) => id))
  }
}

function outcomeOf(result: AppendResult): string {
  const again = result.status === 'appended' && result.repeated
  return `${again ? 'repeated' : result.status} ${result.version}`
}

/** What a log should be like. */
class Model {
  #events: { readonly id: string; readonly name: string }[] = []
  #versions = new Map<string, number>()
  /** By the id of their first event. */
  #appends = new Map<string, { readonly append: Append; readonly version: number }>()

  get names(): string[] {
    return this.#events.map(({ name }) => name)
  }

  version(stream: string): number {
    return this.#versions.get(stream) ?? 0
  }

  /** Sometimes one that was there before. */
  propose(random: Random): Append {
    const known = [...this.#appends.values()].filter(({ append }) =>
      append.events.every(({ id }) => this.#events.some((event) => event.id === id)),
    )
    if (known.length > 0 && random.chance(0.15)) return random.pick(known).append
    const stream = random.pick(streams)
    const near = Math.max(0, this.version(stream) + random.integer(-1, 1))
    const expected = random.pick<Expected>(['any', 'none', 'exists', near, near, this.version(stream)])
    return newAppend(stream, expected, random.integer(1, 3))
  }

  append(append: Append): string {
    const { id, stream, expected, events } = append
    const known = this.#appends.get(id)
    if (known !== undefined) return `repeated ${known.version}`
    const before = this.version(stream)
    const isAsExpected =
      expected === 'any' ||
      (expected === 'exists' ? before > 0 : before === (expected === 'none' ? 0 : expected))
    if (!isAsExpected) return `conflict ${before}`
    events.forEach((event, i) => {
      this.#events.push({ id: event.id, name: `${stream}@${before + i + 1}` })
    })
    const version = before + events.length
    this.#versions.set(stream, version)
    this.#appends.set(id, { append, version })
    return `appended ${version}`
  }

  remove(ids: readonly string[]): void {
    this.#events = this.#events.filter(({ id }) => !ids.includes(id))
    for (const id of ids) this.#appends.delete(id)
  }

  copy(): Model {
    const copy = new Model()
    copy.become(this)
    return copy
  }

  become(other: Model): void {
    this.#events = [...other.#events]
    this.#versions = new Map(other.#versions)
    this.#appends = new Map(other.#appends)
  }
}

test('many at once: versions without gaps, one winner for each, and readers that miss nothing', async () => {
  const fresh = await freshLog()
  const logs = isShared ? [fresh.log, await fresh.another()] : [fresh.log]
  const accepted: { readonly append: Append; readonly version: number }[] = []
  const over = new AbortController()
  const readers = logs.map((log) => follow(log, over.signal))
  const writers = Array.from({ length: 6 }, (_, i) =>
    write(logs[i % logs.length] as EventLog, new Random(seed).fork(`writer ${i}`)),
  )
  await Promise.all(writers)
  over.abort()
  const [seen = [], ...rest] = await Promise.all(readers)
  const told = `MILLRACE_SEED=${seed}`
  for (const other of rest) expect(other.map(nameOf), told).toEqual(seen.map(nameOf))
  const positions = seen.map(({ position }) => position)
  expect(positions, told).toEqual([...new Set(positions)].sort((a, b) => a - b))
  for (const stream of streams) {
    const versions = seen.filter((event) => event.stream === stream).map(({ version }) => version)
    expect(versions, told).toEqual(versions.map((_, i) => i + 1))
    expect(await versionOf(fresh.log, stream), told).toBe(versions.length)
  }
  const written = accepted.flatMap(({ append }) => append.events.map(({ id }) => id))
  expect(seen.map(({ id }) => id).sort(), told).toEqual(written.sort())
  for (const { append, version } of accepted)
    if (typeof append.expected === 'number')
      expect(version - append.events.length, told).toBe(append.expected)

  async function write(log: EventLog, random: Random): Promise<void> {
    for (let i = 0; i < 15; i++) {
      const stream = random.pick(streams)
      const expected = random.pick<Expected>(['any', 'exists', await versionOf(log, stream)])
      const append = newAppend(stream, expected, random.integer(1, 3))
      if (random.chance(0.6)) await plainly(log, append)
      else await inTransaction(log, random, append)
    }
  }

  async function plainly(log: EventLog, append: Append): Promise<void> {
    const [result] = await log.append([append])
    if (result?.status === 'appended') accepted.push({ append, version: result.version })
  }

  async function inTransaction(log: EventLog, random: Random, append: Append): Promise<void> {
    const transaction = await log.begin()
    const [result] = await log.append([append], transaction.tx)
    await sleep(random.integer(0, 3))
    if (random.chance(0.3)) return transaction.rollback()
    await transaction.commit()
    if (result?.status === 'appended') accepted.push({ append, version: result.version })
  }
})

/** Reads on until it is over and there is nothing left. */
async function follow(log: EventLog, over: AbortSignal): Promise<StoredEvent[]> {
  const seen: StoredEvent[] = []
  for (let after = 0; ; ) {
    const wasOver = over.aborted
    const { events, through, more, pending } = await page(log, { after, limit: 20 })
    seen.push(...events)
    after = through
    if (wasOver && !more && !pending) return seen
    if (!more) await sleep(1)
  }
}
