/** Workers are killed before and after they advance a schedule: each slot has its job, and no slot has two. */
import type { Arena } from '../arena.js'
import type { Armed } from '../fail-points.js'
import { fault } from '../fault.js'
import { work } from '../jobs.js'
import { settings } from '../settings.js'
import { checkSlots } from '../slots.js'
import { killArmed } from './kill-at-fail-points.js'

const arms: readonly Armed[] = [{ 'advance-before': 0.2 }, { 'advance-after': 0.2 }]
const count = 10

export const killAdvance = fault('schedule-advance', 1, async (arena) => {
  await putSchedules(arena)
  await arena.startWorker()
  await killArmed(arena, arms)
  await caughtUp(arena)
  for (let i = 0; i < count; i++) await arena.mill.schedule(`every-${i}`).pause()
  const { schedules } = await arena.mill.schedules()
  return arena.judge({
    injected: arena.kills,
    inspect: ({ jobs }) => {
      const ids = jobs.map(({ id }) => id)
      for (const { invariant, text } of checkSlots(ids, schedules)) arena.accuse(invariant, text)
      return `${ids.length} slots of ${count} schedules`
    },
  })
})

/** Each fires once a second, one after the other. */
async function putSchedules(arena: Arena): Promise<void> {
  const start = Date.now()
  for (let i = 0; i < count; i++) {
    const from = new Date(start + (i * 1_000) / count)
    const options = { maxCrashes: 1_000 }
    await arena.mill.schedule(`every-${i}`, {
      every: '1s',
      from,
      job: work,
      input: {},
      catchUp: 'all',
      options,
    })
  }
}

/** All have fired what was due when the last fault was over. */
async function caughtUp(arena: Arena): Promise<void> {
  const time = Date.now()
  const done = await arena.waitUntil(async () => {
    const { schedules } = await arena.mill.schedules()
    return schedules.every(({ next }) => Number(next) > time)
  }, settings.drainLimitMs)
  if (!done) arena.accuse('I13', 'schedules stand still')
}
