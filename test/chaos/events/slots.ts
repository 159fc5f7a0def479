import type { Member } from '../fleet.js'
import { settings } from '../settings.js'
import { type EventsArena, sleep } from './arena.js'

/** Two at a time die and are replaced. */
export async function inTwoSlots(arena: EventsArena, killOne: () => Promise<void>): Promise<void> {
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) await killOne()
  }
  await Promise.all([slot(), slot()])
}

/** One that is armed dies by its own hand, or by ours when it met no fail point. */
export async function diesSoon(
  arena: EventsArena,
  victim: Member,
  patienceMs: number = settings.patienceMs,
): Promise<void> {
  const died = await Promise.race([victim.exit, sleep(patienceMs)])
  await (died === undefined ? arena.kill(victim) : arena.bury(victim))
}
