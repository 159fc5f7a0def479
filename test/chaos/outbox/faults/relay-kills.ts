/** kill -9 of a relay, by its own hand in each window of its work, or from outside at moments that nobody chose. */
import type { Armed } from '../../fail-points.js'
import { settings } from '../../settings.js'
import { type OutboxArena, outboxFault, sleep } from '../arena.js'
import { type CrewOptions, startCrew } from '../crew.js'
import type { OutboxFailPoint } from '../fail-points.js'
import type { RelayConfig } from '../relay-process.js'

type Source = RelayConfig['source']

/** Poison ends the stream for a while: seldom enough, so that there is one. */
const crewOf: Readonly<Record<Source, CrewOptions>> = {
  poll: {},
  replication: { writer: { poison: 0.002 } },
}

export const relayKills = [
  killAt('relay-claimed', { claimed: 0.2 }),
  killAt('relay-delivering', { delivering: 0.03 }),
  killAt('relay-delivered', { delivered: 0.2 }),
  killAt('relay-settle', { 'settle-sent': 0.2 }),
  killAt('relay-settled', { settled: 0.2 }),
  // Lines wait, and what is behind them with them.
  killAt('relay-poison', { delivered: 0.05, 'settle-sent': 0.05 }, { writer: { poison: 0.2, pauseMs: 8 } }),
  killAnywhere('relay-anywhere', 'poll'),
]

/** The same of one that is told of rows by the server. Others poll, and take over when it is gone. */
export const streamKills = [
  killStreamAt('stream-begins', { begins: 0.7 }),
  killStreamAt('stream-catch-up', { 'catching-up': 0.2 }),
  killStreamAt('stream-told', { streamed: 0.1 }),
  killStreamAt('stream-delivered', { 'stream-delivered': 0.1 }),
  killStreamAt('stream-settle', { 'stream-settle-sent': 0.1 }),
  killStreamAt('stream-settled', { 'stream-settled': 0.1 }),
  killAnywhere('stream-anywhere', 'replication'),
]

function killStreamAt(name: string, armed: Armed<OutboxFailPoint>) {
  return killAt(name, armed, crewOf.replication, 'replication')
}

function killAt(name: string, armed: Armed<OutboxFailPoint>, crew = crewOf.poll, source: Source = 'poll') {
  return killRelays(name, source, crew, async (arena) => {
    const victim = await arena.startRelay({ source, armed })
    const died = await Promise.race([victim.exit, sleep(settings.patienceMs)])
    await (died === undefined ? arena.kill(victim) : arena.bury(victim))
  })
}

/** How many die on their way to work. */
const early = 1 / 3

function killAnywhere(name: string, source: Source) {
  return killRelays(name, source, crewOf[source], async (arena) => {
    const victim = arena.launchRelay({ source })
    if (arena.random.chance(early)) await sleep(arena.random.between(50, 900))
    else {
      await victim.ready
      await sleep(arena.random.between(0, source === 'poll' ? 600 : 2_000))
    }
    await arena.kill(victim)
  })
}

function killRelays(
  name: string,
  source: Source,
  crew: CrewOptions,
  killOne: (arena: OutboxArena) => Promise<void>,
) {
  return outboxFault(
    name,
    1,
    async (arena) => {
      // One that nobody kills is there to take over.
      const { writers } = await startCrew(arena, { ...crew, relays: 1 })
      await inTwoSlots(arena, () => killOne(arena))
      return arena.judge(writers, { injected: arena.kills })
    },
    source === 'poll' ? undefined : ['outbox-postgres'],
  )
}

/** Two at a time die and are replaced. */
export async function inTwoSlots(arena: OutboxArena, killOne: () => Promise<void>): Promise<void> {
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) await killOne()
  }
  await Promise.all([slot(), slot()])
}
