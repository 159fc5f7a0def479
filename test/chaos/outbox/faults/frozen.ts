/**
 * A relay stands still until its rows are another's, then goes on. Half of them stop themselves between delivery and
 * settlement, so that the settlement comes too late for certain; the others are stopped at any moment.
 */
import { writable } from '../../engine.js'
import type { Member } from '../../fleet.js'
import type { Tail } from '../../journal.js'
import { type OutboxArena, outboxFault, sleep } from '../arena.js'
import { roundsOf, startCrew } from '../crew.js'
import type { OutboxEngine } from '../ground.js'
import type { OutboxEvent } from '../history.js'
import type { RelayConfig } from '../relay-process.js'
import { outboxSettings } from '../settings.js'

export const frozenRelays = [
  frozen('relay-frozen', 'poll'),
  frozen('stream-frozen', 'replication', ['outbox-postgres']),
]

/** A claim lasts 5 s longer, so this decides how long a round takes. */
const timeoutMs = 500
/** Between two messages: most of the time something is under way. */
const slowMs = 10

function frozen(name: string, source: RelayConfig['source'], engines?: readonly OutboxEngine[]) {
  return outboxFault(
    name,
    0,
    async (arena) => {
      const rounds = roundsOf(arena, 6)
      const relay = { timeoutMs, slowMs, isDeaf: true }
      const crew = await startCrew(arena, { relays: 1, relay, writer: { poison: 0.002 } })
      for (let round = 0; round < rounds; round++) {
        const isOwn = round % 2 === 0
        const armed = { [source === 'poll' ? 'freeze' : 'stream-freeze']: 0.3 }
        const victim = arena.launchRelay({ ...relay, source, ...(isOwn && { armed }) })
        await freezeUntilReplaced(arena, victim, crew.relays[0] as Member, isOwn)
        victim.signal('SIGCONT')
        await sleep(1_000) // it wakes up and goes on with what it has
        await arena.kill(victim)
        arena.options.progress(`${round + 1} of ${rounds} zombies`)
      }
      return arena.judge(crew.writers, {
        injected: rounds,
        hasZombies: true,
        mayComplain: true,
        expectStale: true,
      })
    },
    engines,
  )
}

/** Its rows, and whatever else waits, must be another's while it stands still. */
async function freezeUntilReplaced(
  arena: OutboxArena,
  victim: Member,
  other: Member,
  isOwn: boolean,
): Promise<void> {
  const own = arena.tail(victim)
  const others = arena.tail(other)
  const stoppedAt = isOwn ? await frozenByItself(arena, own) : await stop(arena, victim)
  arena.recordLoss(victim, stoppedAt)
  const held = heldIn(own.read())
  const isReplaced = () => {
    const taken = others
      .read()
      .flatMap((event) => (event.e === 'claimed' && event.t > stoppedAt ? event.rows : []))
    return taken.length > 0 && held.every((row) => taken.includes(row))
  }
  if (!(await arena.waitUntil(isReplaced, outboxSettings.recoveryLimitMs)))
    arena.accuse('I13', `nobody went on with the work of ${victim.name}, which stands still`)
}

async function frozenByItself(arena: OutboxArena, own: Tail<OutboxEvent>): Promise<number> {
  const frozen = () => own.read().find(({ e }) => e === 'frozen')
  if (!(await arena.waitUntil(() => frozen() !== undefined, patienceMs)))
    throw new Error('the relay had nothing to settle')
  return frozen()?.t ?? 0
}

/** Not inside a transaction of a file: with its lock in its hand, all would stand still. */
async function stop(arena: OutboxArena, victim: Member): Promise<number> {
  await victim.ready
  await sleep(arena.random.between(1_000, 3_000))
  for (;;) {
    const t = victim.signal('SIGSTOP')
    if (writable(arena.place.business) && writable(arena.place.target)) return t
    victim.signal('SIGCONT')
    await sleep(arena.random.between(0, 20))
  }
}

/** Nobody knows about those whose settlement is on its way. */
function heldIn(events: readonly OutboxEvent[]): string[] {
  const ended = new Set(
    events.flatMap((event) => (event.e === 'settle-try' || event.e === 'settle-result' ? [event.claim] : [])),
  )
  const lastOf = new Map<string, string>()
  for (const event of events)
    if (event.e === 'claimed') for (const row of event.rows) lastOf.set(row, event.claim)
  return [...lastOf].filter(([, claim]) => !ended.has(claim)).map(([row]) => row)
}

const patienceMs = 20_000
