/**
 * Jobs that would take their worker down, in sandboxes. Each fails its own attempts and no more: no worker is
 * lost, no job crashes, and the others do not notice.
 */
import type { Arena, Findings } from '../arena.js'
import { fault } from '../fault.js'
import { type PoisonKind, type SandboxType, sandboxed } from '../jobs.js'
import { settings } from '../settings.js'
import { othersWaited } from './poison.js'

/** A thread shares its process's fate when that aborts; only a process isolates it. */
const kinds: readonly (readonly [PoisonKind, readonly SandboxType[]])[] = [
  ['abort', ['process']],
  ['exit', ['thread', 'process']],
  ['oom', ['thread', 'process']],
  ['loop', ['thread', 'process']],
]
const { maxAttempts } = sandboxed.thread.policy

export const sandboxes = kinds.map(([how, types]) =>
  fault(`sandbox-${how}`, 0, async (arena) => {
    const rounds = Math.max(2, Math.round(8 * arena.options.scale))
    await Promise.all([arena.startWorker({ abandonMs: 200 }), arena.startWorker({ abandonMs: 200 })])
    const stopFeeding = arena.feed(() => ({ sleep: arena.random.integer(5, 40) }), { delayed: false })
    const ids: string[] = []
    for (let round = 0; round < rounds; round++) {
      for (const type of types) ids.push((await arena.enqueueJob(sandboxed[type], { how })) as string)
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
