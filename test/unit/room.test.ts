/** Callers in line for a full queue: who is told of room, and that nothing is left when nobody waits. */
import { expect, test } from 'vitest'
import { Rooms } from '../../src/client/room.js'
import type { Runtime } from '../../src/client/runtime.js'
import type { NewJob } from '../../src/core/job.js'
import type { Signal } from '../../src/core/store.js'

test('a sign that comes during a try makes it try again', async () => {
  const { rooms, claimed } = setUp()
  const place = rooms.enter(job)
  place.tries()
  claimed()
  await place.room(undefined)
})

test('a sign wakes the first; when it is let in, the others follow', async () => {
  const { rooms, claimed } = setUp()
  const woken: string[] = []
  const [first, second] = [rooms.enter(job), rooms.enter(job)]
  for (const place of [first, second]) place.tries()
  const one = first.room(undefined).then(() => woken.push('first'))
  const two = second.room(undefined).then(() => woken.push('second'))
  claimed()
  await one
  expect(woken).toEqual(['first'])
  first.tries()
  first.opened()
  await two
})

test('a sign that one who leaves made no use of goes to the next', async () => {
  const { rooms, claimed } = setUp()
  const [first, second] = [rooms.enter(job), rooms.enter(job)]
  for (const place of [first, second]) place.tries()
  const next = second.room(undefined)
  claimed()
  first.leave()
  await next
})

test('nothing is left when the last one has gone', async () => {
  const { rooms, left } = setUp()
  const places = [rooms.enter(job), rooms.enter(job), rooms.enter({ ...job, queue: 'other' })]
  expect(left()).toEqual({ listeners: 1, timers: 1 })
  for (const place of places) place.leave()
  expect(left()).toEqual({ listeners: 0, timers: 0 })
  rooms.enter(job).leave()
  expect(left()).toEqual({ listeners: 0, timers: 0 })
})

const job = { queue: 'mail', lane: 2 } as NewJob

function setUp() {
  const listeners = new Set<(signal: Signal) => void>()
  const timers = new Set<() => void>()
  const runtime = {
    store: { subscribe: (listener: (signal: Signal) => void) => added(listeners, listener) },
    clock: { after: (_: number, fn: () => void) => added(timers, fn) },
  } as unknown as Runtime
  const claimed = () => {
    for (const tell of listeners) tell({ type: 'claimed', jobs: [job as never] })
  }
  return {
    rooms: new Rooms(runtime),
    claimed,
    left: () => ({ listeners: listeners.size, timers: timers.size }),
  }
}

function added<T>(set: Set<T>, value: T): () => void {
  set.add(value)
  return () => set.delete(value)
}
