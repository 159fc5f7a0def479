/** SIGTERM under load: running jobs end within the grace; what is left after it runs elsewhere at once. */
import { type Arena, type Findings, sleep } from '../arena.js'
import type { Violation } from '../checker.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { settings } from '../settings.js'

/** Far longer than any grace here. */
const foreverMs = 20_000
const shortGraceMs = 300

export const sigterm = fault('sigterm', 0, async (arena) => {
  const rounds = roundsOf(arena)
  const stopFeeding = arena.feed(() => ({ sleep: arena.random.integer(50, 200) }))
  await arena.startWorker()
  for (let round = 0; round < rounds; round++) {
    // It holds jobs that it has not started, which it has to give back.
    const victim = await arena.startWorker({ prefetch: 10 })
    await sleep(arena.random.between(200, 400))
    await arena.recordLoss(victim, Date.now())
    victim.signal('SIGTERM')
    await ended(arena, victim, settings.graceMs)
  }
  await stopFeeding()
  return arena.judge({
    injected: rounds,
    inspect: (findings) => ({
      violations: [
        ...noCrashes(findings),
        ...interruptedBefore(findings, Number.POSITIVE_INFINITY, new Map()),
      ],
      note: 'interrupted within grace 0',
    }),
  })
})

export const sigtermTwice = fault('sigterm-twice', 0, (arena) =>
  forced(arena, settings.graceMs, 'second signal'),
)
export const sigtermDeadline = fault('sigterm-deadline', 0, (arena) =>
  forced(arena, shortGraceMs, 'deadline'),
)

/** The victim's jobs would run for ever there, and end at once elsewhere. */
async function forced(arena: Arena, graceMs: number, by: 'second signal' | 'deadline') {
  const rounds = roundsOf(arena)
  const violations: Violation[] = []
  const signalled = new Map<string, number>()
  for (let round = 0; round < rounds; round++) {
    const victim = await arena.startWorker({ slowMs: foreverMs, graceMs })
    const worker = await victim.ready
    await arena.enqueue(Array.from({ length: settings.concurrency }, () => ({ slow: true })))
    await arena.waitUntil(async () => (await arena.heldBy(worker)).length === settings.concurrency, 5_000)
    const heir = await arena.startWorker()
    signalled.set(worker, victim.signal('SIGTERM'))
    await arena.enqueue(Array.from({ length: 10 }, () => ({ sleep: 5 })))
    if (by === 'second signal') await sleep(150)
    else await sleep(graceMs - 50)
    await arena.recordLoss(victim, by === 'deadline' ? (signalled.get(worker) ?? 0) + graceMs : Date.now())
    if (by === 'second signal') victim.signal('SIGTERM')
    await ended(arena, victim, 1_000)
    await arena.waitUntil(async () => (await arena.counts()).running === 0, settings.drainLimitMs)
    heir.signal('SIGTERM')
    await heir.exit
    arena.options.progress(`${round + 1} of ${rounds} shutdowns`)
  }
  const grace = by === 'deadline' ? graceMs : 150
  return arena.judge({
    injected: rounds,
    violations,
    inspect: (findings) => ({
      violations: [
        ...noCrashes(findings),
        ...interruptedBefore(findings, grace, signalled),
        ...atOnce(arena, findings),
      ],
      note: `given back at the ${by}; times are from it to the next start`,
    }),
  })
}

function roundsOf(arena: Arena): number {
  return Math.max(1, Math.round(5 * arena.options.scale))
}

async function ended(arena: Arena, victim: Member, limitMs: number): Promise<void> {
  const exit = await Promise.race([victim.exit, sleep(limitMs + 1_000)])
  if (exit === undefined)
    arena.fleet.crashes.push(`${victim.name} did not end within ${limitMs + 1_000} ms of its signal`)
}

/** Nobody was lost, so nothing may count as a crash. */
function noCrashes({ jobs }: Findings): Violation[] {
  const crashed = jobs.filter((job) => job.crashes > 0)
  if (crashed.length === 0) return []
  return [{ invariant: 'I11', text: `${crashed.length} jobs crashed in a shutdown: ${crashed[0]?.id}` }]
}

/** Jobs that had started and were given back before their time. */
function interruptedBefore(
  { events }: Findings,
  graceMs: number,
  signalled: ReadonlyMap<string, number>,
): Violation[] {
  const started = new Map<string, string>()
  for (const event of events) if (event.e === 'start') started.set(event.token, event.worker)
  const early = events.filter((event) => {
    if (event.e !== 'settle-try' || event.to !== 'pending' || event.rescue) return false
    const worker = started.get(event.token)
    // Timers may be a millisecond early.
    return worker !== undefined && event.t < (signalled.get(worker) ?? 0) + graceMs - 2
  })
  if (early.length === 0) return []
  return [{ invariant: 'I13', text: `${early.length} running jobs were interrupted within the grace` }]
}

/** Long before the lease would have given them back. */
function atOnce(arena: Arena, { events }: Findings): Violation[] {
  const late = arena.losses.flatMap(({ worker, t, held }) =>
    held.filter((id) => {
      const next = events.find((e) => e.e === 'start' && e.id === id && e.t >= t && e.worker !== worker)
      return next === undefined || next.t - t > settings.leaseMs / 2
    }),
  )
  if (late.length === 0) return []
  return [{ invariant: 'I13', text: `${late.length} jobs were not given back at once: ${late[0]}` }]
}
