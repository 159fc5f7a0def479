/**
 * Jobs that take their worker down, with others beside them. Each must be dead after exactly its cap of
 * crashes; the others all complete, whatever they went through, and the note tells how long they waited.
 */
import { type Arena, type Findings, sleep } from '../arena.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { type PoisonKind, poison as poisonJob } from '../jobs.js'
import { medianOf } from '../row.js'
import { settings } from '../settings.js'

const maxCrashes = 3
const kinds: readonly PoisonKind[] = ['abort', 'exit', 'oom', 'loop']

export const poisons = kinds.map((how) =>
  fault(`poison-${how}`, 0, async (arena) => {
    let over = false
    const supervisors = [supervise(arena, how, () => over), supervise(arena, how, () => over)]
    const innocent = () => arena.enqueue([{ sleep: arena.random.integer(5, 40) }], { maxCrashes })
    for (let i = 0; i < 20; i++) await innocent()
    const id = (await arena.enqueueJob(poisonJob, { how }, { maxCrashes })) as string
    const dead = await arena.waitUntil(async () => {
      await innocent()
      return (await arena.mill.job(id).state()) === 'dead'
    }, 30_000)
    over = true
    for (const member of arena.fleet.members) member.doomed = false
    if (!dead) arena.accuse('I11', 'the poison job is not dead after 30 s')
    const row = await arena.judge({
      injected: maxCrashes,
      inspect: (findings) => inspect(arena, findings, id),
    })
    await Promise.all(supervisors)
    return row
  }),
)

/** Keeps one worker alive, as an init system would. */
export async function supervise(arena: Arena, how: PoisonKind, over: () => boolean): Promise<void> {
  while (!over()) {
    const member = arena.launchWorker({}, how === 'oom' ? ['--max-old-space-size=40'] : [])
    member.doomed = true
    if (how === 'loop') await watch(arena, member)
    else await member.exit.then(({ t }) => arena.recordLoss(member, t))
  }
}

/** A worker that hangs is replaced once its jobs are elsewhere. */
async function watch(arena: Arena, member: Member): Promise<void> {
  const worker = await member.ready.catch(() => '')
  for (;;) {
    await Promise.race([member.exit, sleep(50)])
    if (member.ended !== undefined) return
    if (Date.now() - member.lastHeardAt < settings.leaseMs / 2) continue
    await arena.recordLoss(member, member.lastHeardAt)
    await arena.waitUntil(async () => (await arena.heldBy(worker)).length === 0, settings.recoveryLimitMs)
    member.signal('SIGKILL')
    await member.exit
    return
  }
}

function inspect(arena: Arena, { events, jobs }: Findings, id: string): string {
  const poison = jobs.find((job) => job.id === id)
  if (poison?.state !== 'dead' || poison.crashes !== maxCrashes) {
    arena.accuse('I11', `the poison job is ${poison?.state} after ${poison?.crashes} crashes`)
  }
  const starts = events.filter((event) => event.e === 'start' && event.id === id).length
  if (starts !== maxCrashes)
    arena.accuse('I11', `the poison job started ${starts} times, the cap is ${maxCrashes}`)
  const harmed = jobs.filter((job) => job.id !== id && job.state !== 'completed').length
  if (harmed > 0) arena.accuse('I11', `${harmed} innocent jobs did not complete`)
  return othersWaited(events, [id])
}

export function othersWaited(events: Findings['events'], poisons: readonly string[]): string {
  const delays = delaysOf(events, poisons)
  return `others waited p50 ${medianOf(delays)} ms, max ${Math.max(...delays)} ms`
}

/** From the enqueue of each other job to its accepted completion. */
function delaysOf(events: Findings['events'], poisons: readonly string[]): number[] {
  const enqueued = new Map<string, number>()
  const delays: number[] = []
  for (const event of events) {
    if (event.e === 'enqueue-try' && !poisons.includes(event.id)) enqueued.set(event.id, event.t)
    if (event.e !== 'settle-result' || event.to !== 'completed' || event.result !== 'applied') continue
    delays.push(event.t - (enqueued.get(event.id) ?? event.t))
  }
  return delays
}
