/**
 * The store does the work and its answer is an error, while the worker lives: as when a connection breaks
 * after the commit. The worker may not forget the jobs that it was given and never heard of.
 */
import { sleep } from '../arena.js'
import { fault } from '../fault.js'
import { mixedWork } from './load.js'

const forMs = 3_000

export const replyDropped = fault('reply-dropped', 0, async (arena) => {
  const dropReplies = { chance: 0.05, forMs }
  await Promise.all([arena.startWorker({ dropReplies }), arena.startWorker({ dropReplies })])
  const stopFeeding = arena.feed(() => mixedWork(arena.random))
  await sleep(forMs)
  await stopFeeding()
  return arena.judge({
    injected: ({ events }) => events.filter((event) => event.e === 'error').length,
    allowedErrors: ['STORE_FAILED'],
  })
})
