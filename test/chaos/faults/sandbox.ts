/**
 * Jobs that would take their worker down, in sandboxes. Each fails its own attempts and no more: no worker is
 * lost, no job crashes, and the others do not notice. One that is kept apart only as a suspect takes workers
 * down until it is one, and none from then on.
 */
import type { Arena, Findings } from '../arena.js'
import { fault } from '../fault.js'
import { type PoisonKind, sandboxed } from '../jobs.js'
import { settings } from '../settings.js'
import { othersWaited, supervise } from './poison.js'

/** A thread shares its process's fate when that aborts; only a process isolates it. */
const kinds: readonly (readonly [PoisonKind, readonly ('thread' | 'process')[]])[] = [
  ['abort', ['process']],
  ['exit', ['thread', 'process']],
  ['oom', ['thread', 'process']],
  ['loop', ['thread', 'process']],
]
const maxAttempts = 2
const maxCrashes = 3

export const sandboxes = kinds.map(([how, types]) =>
  fault(`sandbox-${how}`, 0, async (arena) => {
    const rounds = Math.max(2, Math.round(8 * arena.options.scale))
    await Promise.all([arena.startWorker(), arena.startWorker()])
    const stopFeeding = arena.feed(() => ({ sleep: arena.random.integer(5, 40) }), { delayed: false })
    const ids: string[] = []
    for (let round = 0; round < rounds; round++) {
      for (const type of types)
        ids.push((await arena.enqueueJob(sandboxed[type], { how }, { maxAttempts })) as string)
    }
    const all = await arena.waitUntil(async () => {
      const states = await Promise.all(ids.map((id) => arena.mill.job(id).state()))
      const dead = states.filter((state) => state === 'dead').length
      arena.options.progress(`${dead} of ${ids.length} dead`)
      return dead === ids.length
    }, settings.drainLimitMs)
    await stopFeeding()
    if (!all) arena.accuse('I11', 'not all jobs in sandboxes are dead')
    return arena.judge({
      injected: ({ events }) =>
        events.filter((event) => event.e === 'start' && ids.includes(event.id)).length,
      inspect: (findings) => inspect(arena, findings, ids),
    })
  }),
)

export const suspect = fault('sandbox-suspect', 0, async (arena) => {
  let over = false
  const supervisors = [supervise(arena, 'abort', () => over), supervise(arena, 'abort', () => over)]
  const innocent = () => arena.enqueue([{ sleep: arena.random.integer(5, 40) }], { maxCrashes })
  for (let i = 0; i < 20; i++) await innocent()
  const id = (await arena.enqueueJob(sandboxed.suspect, { how: 'abort' }, { maxCrashes })) as string
  const dead = await arena.waitUntil(async () => {
    await innocent()
    return (await arena.mill.job(id).state()) === 'dead'
  }, 30_000)
  over = true
  for (const member of arena.fleet.members) member.doomed = false
  if (!dead) arena.accuse('I11', 'the suspect is not dead after 30 s')
  const row = await arena.judge({
    injected: ({ events }) => events.filter((event) => event.e === 'start' && event.id === id).length,
    inspect: ({ events, jobs }) => {
      const { state, attempt, crashes } = jobs.find((job) => job.id === id) ?? {}
      const expected = { attempt: sandboxed.suspect.policy.maxAttempts, crashes: maxCrashes - 1 }
      if (state !== 'dead' || attempt !== expected.attempt || crashes !== expected.crashes)
        arena.accuse('I11', `the suspect is ${state} after ${attempt} attempts and ${crashes} crashes`)
      const harmed = jobs.filter((job) => job.id !== id && job.state !== 'completed').length
      if (harmed > 0) arena.accuse('I11', `${harmed} innocent jobs did not complete`)
      return `took ${crashes} workers down before it was kept apart; ${othersWaited(events, [id])}`
    },
  })
  await Promise.all(supervisors)
  return row
})

function inspect(arena: Arena, { events, jobs }: Findings, ids: readonly string[]): string {
  for (const job of jobs) {
    const harmful = ids.includes(job.id)
    const asExpected = harmful
      ? job.state === 'dead' && job.attempt === maxAttempts
      : job.state === 'completed' && job.attempt === 1
    if (asExpected && job.crashes === 0) continue
    arena.accuse('I11', `${job.id} is ${job.state} after ${job.attempt} attempts and ${job.crashes} crashes`)
  }
  return othersWaited(events, ids)
}
