/**
 * A worker stands still with a page of events in its hand until its parts are another's, then goes on. What it then writes
 * comes too late. In half of the rounds the other one has given the parts back by then, and nobody has them; not where what
 * stands still has locks, which the other waits for.
 */
import type { Member } from '../../fleet.js'
import type { Tail } from '../../journal.js'
import { type EventsArena, eventsFault, roundsOf, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import type { EventsFailPoint } from '../fail-points.js'
import type { EventsEngine } from '../ground.js'
import type { EventsEvent } from '../history.js'
import { eventsSettings } from '../settings.js'

export const frozenWorkers = [
  frozen('frozen', 'freeze-read'),
  // In a file nobody could go on: it stands still with the lock in its hand.
  frozen('frozen-writing', 'freeze-handled', ['events-postgres']),
]

function frozen(name: string, point: EventsFailPoint, engines?: readonly EventsEngine[]) {
  const hasLocks = point === 'freeze-handled'
  return eventsFault(
    name,
    0,
    async (arena) => {
      const rounds = Math.max(2, roundsOf(arena, 6))
      const { writers, followers } = await startCrew(arena, { projectors: 0 })
      for (let round = 0; round < rounds; round++) {
        const victim = arena.launchProjector({ armed: { [point]: 0.2 } })
        const own = arena.tail(victim)
        arena.recordLoss(victim, await frozenByItself(arena, own))
        const other = arena.launchProjector()
        await replaced(arena, heldIn(own.read()), arena.tail(other))
        const isGivenBack = !hasLocks && round % 2 === 1
        if (isGivenBack) await givesBack(arena, other)
        victim.signal('SIGCONT')
        await sleep(1_000) // it wakes up and goes on with what it has
        await arena.kill(victim)
        if (!isGivenBack) await givesBack(arena, other)
        arena.options.progress(`${round + 1} of ${rounds} zombies`)
      }
      await arena.startProjector()
      return arena.judge({
        injected: rounds,
        writers,
        followers,
        mayComplain: true,
        expectStale: true,
      })
    },
    engines,
  )
}

async function frozenByItself(arena: EventsArena, own: Tail<EventsEvent>): Promise<number> {
  const frozen = () => own.read().find(({ e }) => e === 'frozen')
  if (!(await arena.waitUntil(() => frozen() !== undefined, patienceMs)))
    throw new Error('the worker had nothing to do')
  return frozen()?.t ?? 0
}

/** Each of its parts must be the other's while it stands still. */
async function replaced(
  arena: EventsArena,
  held: ReadonlySet<string>,
  others: Tail<EventsEvent>,
): Promise<void> {
  const taken = () => {
    const parts = heldIn(others.read())
    return [...held].every((part) => parts.has(part))
  }
  if (!(await arena.waitUntil(taken, eventsSettings.recoveryLimitMs)))
    arena.accuse('I13', `nobody went on with ${[...held].join(', ')} of a worker that stands still`)
  await sleep(aheadMs)
}

/** Then the other is further than what the one that stands still has read. */
const aheadMs = 300

async function givesBack(arena: EventsArena, worker: Member): Promise<void> {
  worker.signal('SIGTERM')
  await arena.ended(worker, eventsSettings.graceMs)
}

function heldIn(events: readonly EventsEvent[]): Set<string> {
  const parts = new Set<string>()
  for (const event of events) {
    if (event.e === 'held') parts.add(event.part)
    if (event.e === 'advance-result' && event.done) parts.delete(event.part)
  }
  return parts
}

const patienceMs = 20_000
