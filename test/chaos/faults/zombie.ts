/** SIGSTOP of a worker until its lease is over and its jobs run elsewhere, then SIGCONT: a zombie that wants to write. */
import { type Arena, sleep } from '../arena.js'
import { writable } from '../engine.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { settings } from '../settings.js'
import { slowWork } from './load.js'

export const zombie = fault('zombie', 0, async (arena) => {
  const rounds = Math.max(2, Math.round(12 * arena.options.scale))
  // The other has few slots, so that the zombie, when it wakes up, finds the very jobs that it lost.
  const [victim] = await Promise.all([
    arena.startWorker(),
    arena.startWorker({ concurrency: 3, prefetch: 0 }),
  ])
  const stopFeeding = arena.feed(() => slowWork(arena.random), { level: 20 })
  for (let round = 0; round < rounds; round++) {
    await stopUntilRescued(arena, victim)
    victim.signal('SIGCONT')
    await sleep(500) // it wakes up and tries to write what it has
    arena.options.progress(`${round + 1} of ${rounds} zombies`)
  }
  await stopFeeding()
  return arena.judge({ injected: rounds, expectStale: true })
})

/** The zombie comes back to life, takes new jobs, and then is killed: those jobs must come back as well. */
export const zombieKilled = fault('zombie-killed', 0.3, async (arena) => {
  const stopFeeding = arena.feed(() => slowWork(arena.random), { level: 20 })
  let survivor: Member | undefined
  while (arena.kills < arena.options.kills) {
    const victim = await arena.startWorker()
    const next = await arena.startWorker()
    survivor?.signal('SIGTERM')
    if (survivor !== undefined) await arena.ended(survivor, settings.graceMs)
    survivor = next
    await stopUntilRescued(arena, victim)
    await sleep(4 * settings.pollMs) // until the sweep has forgotten the worker itself
    victim.signal('SIGCONT')
    await sleep(500)
    await arena.kill(victim)
    const worker = await victim.ready
    await arena.waitUntil(
      async () => (await arena.heldBy(worker)).length === 0,
      settings.recoveryLimitMs + 1_000,
    )
  }
  await stopFeeding()
  return arena.judge({ injected: arena.kills })
})

async function stopUntilRescued(arena: Arena, victim: Member): Promise<void> {
  const worker = await victim.ready
  const held = async () => (await arena.heldBy(worker)).length
  const t = await stop(arena, victim, held)
  await arena.recordLoss(victim, t)
  const rescued = await arena.waitUntil(async () => (await held()) === 0, settings.recoveryLimitMs)
  if (!rescued) arena.accuse('I13', `nobody rescued ${await held()} jobs of ${worker}, which stands still`)
}

/** Stops it while it has jobs, yet not inside a transaction: with the file's lock in its hand, all would stand still. */
async function stop(arena: Arena, victim: Member, held: () => Promise<number>): Promise<number> {
  for (;;) {
    await arena.waitUntil(async () => (await held()) > 0, 5_000)
    await sleep(arena.random.between(0, 150))
    const t = victim.signal('SIGSTOP')
    if (writable(arena.place)) return t
    victim.signal('SIGCONT')
  }
}
