/**
 * I6 in random runs: workers of several processes sweep, think it over and answer late or twice, while schedules are
 * changed, paused and resumed and the clock is set forward and back. No slot ever fires twice, though no fired job is
 * kept; and a schedule that nobody touches misses none under `all`, also when the clock was years behind for a while.
 */
import { type DueSchedule, defineJob, type ScheduleChange } from 'millrace'
import { expect, test } from 'vitest'
import { planAdvance } from '../../src/core/firing.js'
import { Random } from '../chaos/random.js'
import { pace } from './engines.js'
import { storeOf, testMill } from './mill.js'

const runs = 60 * pace
const steps = 120
const tick = defineJob<number>({ name: 'tick', run: () => {} })
const crons = ['* * * * *', '*/7 * * * *', '30 2 * * *', '0 * * * *']

test(`${runs} random runs fire no slot twice and miss none under all`, async () => {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  for (let run = 0; run < runs; run++) await randomRun(new Random(seed + run), `MILLRACE_SEED=${seed + run}`)
}, 120_000)

const year = 400 * 86_400_000

async function randomRun(random: Random, told: string): Promise<void> {
  // In some runs the clock is a year off at times. What `all` has fired too soon fires again at its time.
  const error = random.pick([0, -year, year])
  const mill = testMill({ jobs: [tick], start: '2030-03-09T20:00:00Z' })
  const store = storeOf(mill)
  const slots = new Map<string, number[]>()
  const pending: DueSchedule[] = []
  const keep = { completed: 0, dead: 0 }
  const untouched = { every: '1m', job: tick, input: 0, catchUp: error > 0 ? 'last' : 'all' } as const
  await mill.schedule('untouched', untouched)
  const since = mill.clock.now()

  for (let step = 0; step < steps; step++) {
    const name = random.pick(['a', 'b'])
    await random.pick([
      () => mill.clock.advance(random.integer(0, 600_000)),
      async () => mill.clock.jump(random.integer(error > 0 ? 0 : -3, 3) * 1_800_000),
      look,
      look,
      answer,
      answer,
      answer,
      // No two errors are alike to the millisecond.
      () => (random.chance(0.3) ? wrongFor(error === 0 ? 0 : error + step) : look()),
      () => mill.schedule(name, anyOptions(random)),
      () =>
        mill
          .schedule(name)
          .pause()
          .catch(() => {}),
      () =>
        mill
          .schedule(name)
          .resume()
          .catch(() => {}),
    ])()
  }
  // Where the clock was ahead, only what is on time fires until it is there again.
  if (error > 0) await settled()
  if (error > 0) await mill.clock.advance(60_000)
  await settled()

  for (const [name, all] of slots) {
    if (error > 0 && name !== 'untouched') continue
    const fired = all.filter(isOfThisYear)
    const twice = fired.filter((slot, i) => fired.indexOf(slot) !== i).map((slot) => new Date(slot))
    expect(twice, `${told}: ${error} ${name} fired a slot twice`).toEqual([])
    expect(fired, `${told}: ${error} ${name} went back`).toEqual([...fired].sort((a, b) => a - b))
  }
  const minutes = (slots.get('untouched') ?? []).filter(isOfThisYear)
  const last = minutes.at(-1) ?? since
  if (error <= 0) expect(minutes.length, `${told}: untouched`).toBe(Math.floor((last - since) / 60_000))
  expect(last + 60_000, `${told}: ${error} all that was due fired`).toBeGreaterThan(mill.clock.now())
  await mill.close()

  /** Where the clock was wrong, nobody can know what has fired. */
  function isOfThisYear(slot: number): boolean {
    return slot > since && slot < since + year / 2
  }

  async function settled(): Promise<void> {
    for (let more = true; more; ) {
      await look()
      more = pending.length > 0
      while (pending.length > 0) await answer()
    }
  }

  async function wrongFor(ms: number): Promise<void> {
    mill.clock.jump(ms)
    await look()
    for (let i = random.integer(0, 5); i > 0; i--) await answer()
    await mill.clock.advance(random.integer(0, 200_000))
    if (random.chance(0.5)) await look()
    for (let i = random.integer(0, 5); i > 0; i--) await answer()
    mill.clock.jump(-ms)
  }

  /** A worker learns what is due, and will answer at some time, maybe more than once. */
  async function look(): Promise<void> {
    const { schedules } = await store.sweep({ limit: 100, keep })
    for (const schedule of schedules) {
      pending.push(schedule)
      if (random.chance(0.3)) pending.push(schedule)
    }
  }

  async function answer(): Promise<void> {
    if (pending.length === 0) return
    const [due] = pending.splice(random.integer(0, pending.length - 1), 1)
    const { change } = planAdvance(due as DueSchedule)
    const [result] = await store.schedule([change])
    if (result?.status === 'applied') await note(change)
  }

  /** Removes the jobs, so that their ids keep nothing from being fired again. */
  async function note({ name, jobs }: Extract<ScheduleChange, { do: 'advance' }>): Promise<void> {
    const { input } = (await mill.schedule(name).get()) ?? {}
    for (const { id, input: text } of jobs) {
      expect(JSON.parse(text), `${told}: ${name} fires what it is now`).toBe(input)
      const slot = Date.parse(id.slice(`schedule:${name}:`.length))
      slots.set(name, [...(slots.get(name) ?? []), slot])
    }
    const { affected } = await store.operate({ ids: jobs.map(({ id }) => id) }, { do: 'remove' })
    expect(affected, `${told}: each fired job is there`).toHaveLength(jobs.length)
  }
}

function anyOptions(random: Random) {
  const catchUp = random.pick(['skip', 'last', 'all'] as const)
  const common = { job: tick, input: random.integer(0, 2), catchUp }
  return random.chance(0.5)
    ? { ...common, every: random.pick(['1m', '90s', '1h']) }
    : { ...common, cron: random.pick(crons), tz: random.pick(['UTC', 'America/New_York']) }
}
