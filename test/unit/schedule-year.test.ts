/** A year of 10,000 schedules over 40 zones, fired from one due time to the next as a worker would. */
import { type Clock, defineJob, Millrace } from 'millrace'
import { MemoryStore } from 'millrace/memory'
import { expect, test } from 'vitest'
import { Emitter } from '../../src/core/events.js'
import { fireSchedules } from '../../src/worker/schedules.js'
import { Random } from '../chaos/random.js'
import { enumerate, Zone } from './calendar.js'

const zones = [
  'UTC',
  'America/New_York',
  'America/Los_Angeles',
  'America/Chicago',
  'America/St_Johns',
  'America/Halifax',
  'America/Sao_Paulo',
  'America/Mexico_City',
  'America/Bogota',
  'America/Caracas',
  // Their clocks change at midnight, or across it.
  'America/Santiago',
  'America/Havana',
  'America/Nuuk',
  'America/Scoresbysund',
  'Africa/Cairo',
  'Asia/Beirut',
  'Atlantic/Azores',
  'Africa/Casablanca',
  'Africa/Johannesburg',
  'Africa/Lagos',
  // By two hours, and by half an hour.
  'Antarctica/Troll',
  'Australia/Lord_Howe',
  'Australia/Adelaide',
  'Australia/Sydney',
  'Australia/Brisbane',
  'Asia/Jerusalem',
  'Asia/Gaza',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Asia/Tehran',
  'Asia/Tokyo',
  'Asia/Shanghai',
  'Europe/Berlin',
  'Europe/London',
  'Europe/Dublin',
  'Europe/Chisinau',
  'Europe/Istanbul',
  'Pacific/Auckland',
  'Pacific/Chatham',
  'Pacific/Easter',
] as const

const count = 10_000
const start = Date.UTC(2030, 0, 1)
const end = Date.UTC(2031, 0, 1)

test('a year of 10,000 schedules over 40 zones fires what an independent enumeration expects', async () => {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  const random = new Random(seed)
  const known = zones.map((name) => new Zone(name, start, end))
  expect(known).toHaveLength(40)

  const clock = new StandingClock(start)
  const store = new MemoryStore({ clock })
  const mill = new Millrace({ store, clock })
  const job = defineJob<null>({ name: 'tick', run: () => {} })
  const plans = makePlans(known, random)
  for (const [i, { cron, zone }] of plans.entries())
    await mill.schedule(`s${i}`, { cron, tz: zone.name, job, input: null })

  await fireUntil(end, clock, store)

  const fired = await firedSlots(store)
  let total = 0
  for (const [i, { cron, zone }] of plans.entries()) {
    const expected = enumerate(cron, zone, start, end)
    const told = `seed ${seed}: '${cron}' in ${zone.name}`
    expect(fired.get(`s${i}`) ?? [], told).toEqual(expected)
    expect((await mill.schedule(`s${i}`).get())?.fired, told).toBe(expected.length)
    total += expected.length
  }
  expect(total).toBeGreaterThan(150_000)
  await mill.close()
}, 180_000)

interface Plan {
  readonly cron: string
  readonly zone: Zone
}

/** Around each change of each clock, and at random; few of them often, because each slot takes its time. */
function makePlans(known: readonly Zone[], random: Random): Plan[] {
  const changes = known.flatMap((zone) => zone.jumps.map((jump) => ({ zone, jump })))
  const plans = changes.flatMap(({ zone, jump }) => around(jump).map((cron) => ({ cron, zone })))
  const times = Array.from({ length: 100 }, () => makeTimeOfDay(random))
  while (plans.length < count) {
    const turn = plans.length % 200
    const cron = turn === 0 ? makeOften(random) : turn < 4 ? makeDaily(random) : random.pick(times)
    plans.push({ cron, zone: random.pick(known) })
  }
  return plans
}

/** Times of day, and all other kinds of expression, on the day of the change and those beside it. */
function around({ before, after }: { before: number; after: number }): string[] {
  return [before - 1, before, after - 1, after, (before + after) / 2].flatMap((shown) => {
    const date = new Date(shown)
    const [m, h, d, M] = [date.getUTCMinutes(), date.getUTCHours(), date.getUTCDate(), date.getUTCMonth() + 1]
    return [
      `${m} ${h} ${d} ${M} *`,
      `${m} ${h} * ${M} *`,
      `${m} * ${d} ${M} *`,
      `*/20 ${h} ${d} ${M} *`,
      `5,35 ${h},${(h + 1) % 24} ${d} ${M} *`,
      `0-10/5 ${h} ${d} ${M} ${date.getUTCDay()}`,
    ]
  })
}

function makeOften(random: Random): string {
  return `${random.integer(0, 59)} */${random.pick([4, 6, 8])} * * *`
}

function makeDaily(random: Random): string {
  return random.chance(0.5)
    ? `${random.integer(0, 59)} ${random.integer(0, 3)} * * *`
    : `${random.integer(0, 59)} ${random.integer(0, 23)} * * 1-5`
}

function makeTimeOfDay(random: Random): string {
  const time = `${random.integer(0, 59)} ${random.integer(0, 23)}`
  const month = random.pick(['*', '*/2', '1,4,7,10', '3', '10-12'])
  return random.pick([
    `${time} ${random.integer(1, 31)} * *`,
    `${time} 1,15 * *`,
    `${time} * ${month} ${random.integer(0, 7)}`,
    `${time} ${random.integer(1, 28)} ${month} ${random.integer(0, 6)}`,
  ])
}

async function fireUntil(end: number, clock: StandingClock, store: MemoryStore): Promise<void> {
  const events = new Emitter(({ error }) => {
    throw error
  })
  const runtime = { store, events } as unknown as Parameters<typeof fireSchedules>[0]
  const keep = { completed: 1, dead: 1 }
  for (;;) {
    const { schedules, nextSlot } = await store.sweep({ limit: 1_000, keep })
    if (schedules.length > 0) await fireSchedules(runtime, schedules)
    else if (nextSlot === undefined || clock.time + nextSlot > end) return
    else clock.time += nextSlot
  }
}

async function firedSlots(store: MemoryStore): Promise<Map<string, number[]>> {
  const slots = new Map<string, number[]>()
  let cursor: string | undefined
  do {
    const page = await store.list({ filter: { state: 'pending' }, limit: 1_000, cursor })
    for (const { id } of page.jobs) {
      const [, name = '', slot = ''] = /^schedule:(\w+):(.+)$/.exec(id) ?? []
      const list = slots.get(name) ?? []
      list.push(Date.parse(slot))
      slots.set(name, list)
    }
    cursor = page.cursor
  } while (cursor !== undefined)
  return slots
}

/** Stands still until it is set. */
class StandingClock implements Clock {
  time: number

  constructor(time: number) {
    this.time = time
  }

  now(): number {
    return this.time
  }

  monotonic(): number {
    return this.time
  }

  after(): () => void {
    return () => {}
  }
}
