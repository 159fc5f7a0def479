/** SIGTERM under load: running jobs end within the grace; what is left after it runs elsewhere at once. */
import { type Arena, type Findings, sleep } from '../arena.js'
import { fault } from '../fault.js'
import { settings } from '../settings.js'

/** Far longer than any grace here. */
const foreverMs = 20_000
const shortGraceMs = 300
/** Two signals of one moment count as one. */
const secondThoughtMs = 600

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
    await arena.ended(victim, settings.graceMs)
  }
  await stopFeeding()
  return arena.judge({
    injected: rounds,
    inspect: (findings) => {
      expectNoCrashes(arena, findings)
      const interrupted = interruptedBefore(findings, Number.POSITIVE_INFINITY, new Map())
      if (interrupted > 0)
        arena.accuse('I13', `${interrupted} running jobs were interrupted within the grace`)
      return `interrupted within grace ${interrupted}`
    },
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
  const signalled = new Map<string, number>()
  for (let round = 0; round < rounds; round++) {
    const victim = await arena.startWorker({ slowMs: foreverMs, graceMs })
    const worker = await victim.ready
    await arena.enqueue(Array.from({ length: settings.concurrency }, () => ({ slow: true })))
    await arena.waitUntil(async () => (await arena.heldBy(worker)).length === settings.concurrency, 5_000)
    const heir = await arena.startWorker()
    signalled.set(worker, victim.signal('SIGTERM'))
    await arena.enqueue(Array.from({ length: 10 }, () => ({ sleep: 5 })))
    await sleep(by === 'second signal' ? secondThoughtMs : graceMs - 50)
    await arena.recordLoss(victim, by === 'deadline' ? (signalled.get(worker) ?? 0) + graceMs : Date.now())
    if (by === 'second signal') victim.signal('SIGTERM')
    await arena.ended(victim, 0)
    await arena.waitUntil(async () => (await arena.counts()).running === 0, settings.drainLimitMs)
    heir.signal('SIGTERM')
    await arena.ended(heir, settings.graceMs)
    arena.options.progress(`${round + 1} of ${rounds} shutdowns`)
  }
  const grace = by === 'deadline' ? graceMs : secondThoughtMs
  return arena.judge({
    injected: rounds,
    inspect: (findings) => {
      expectNoCrashes(arena, findings)
      const interrupted = interruptedBefore(findings, grace, signalled)
      if (interrupted > 0)
        arena.accuse('I13', `${interrupted} running jobs were interrupted within the grace`)
      const late = lateOf(arena, findings)
      if (late > 0) arena.accuse('I13', `${late} jobs were not given back at once`)
      return `given back at the ${by}; times are from it to the next start`
    },
  })
}

function roundsOf(arena: Arena): number {
  return Math.max(1, Math.round(5 * arena.options.scale))
}

/** Nobody was lost, so nothing may count as a crash. */
function expectNoCrashes(arena: Arena, { jobs }: Findings): void {
  const crashed = jobs.filter((job) => job.crashes > 0)
  if (crashed.length > 0)
    arena.accuse('I11', `${crashed.length} jobs crashed in a shutdown: ${crashed[0]?.id}`)
}

/** Counts jobs that had started and were given back before their time. */
function interruptedBefore(
  { events }: Findings,
  graceMs: number,
  signalled: ReadonlyMap<string, number>,
): number {
  const started = new Map<string, string>()
  for (const event of events) if (event.e === 'start') started.set(event.token, event.worker)
  return events.filter((event) => {
    if (event.e !== 'settle-try' || event.to !== 'pending' || event.rescue) return false
    const worker = started.get(event.token)
    // Timers may be a millisecond early.
    return worker !== undefined && event.t < (signalled.get(worker) ?? 0) + graceMs - 2
  }).length
}

/** Counts jobs that came back about when the lease would have given them back anyway. */
function lateOf(arena: Arena, { events }: Findings): number {
  const late = arena.losses.flatMap(({ worker, t, held }) =>
    held.filter((id) => {
      const next = events.find((e) => e.e === 'start' && e.id === id && e.t >= t && e.worker !== worker)
      return next === undefined || next.t - t > settings.leaseMs / 2
    }),
  )
  return late.length
}
