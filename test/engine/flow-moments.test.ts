/** A child is replayed at each moment of its flow in turn: before and after every call of the store. */
import { defineJob, type Store } from 'millrace'
import { describe, expect, test } from 'vitest'
import { replay, storeOf, testMill } from './mill.js'

const verbs = ['links', 'get', 'exchange', 'extend', 'insert'] as const
type Verb = (...parameters: unknown[]) => Promise<unknown>

describe('a child is replayed at any moment', () => {
  for (const onFailure of ['fail', 'compensate'] as const) {
    test(`${onFailure}: its flow completes, or has died of it before`, async () => {
      const ends = new Set<string>()
      for (let moment = 0, isLast = false; !isLast; moment++) {
        const { seen, state, wasDead, isAfterAll } = await runFlow(onFailure, moment)
        isLast = isAfterAll
        const undone = onFailure === 'compensate' ? ['charge', 'undo charge', 'pack'] : ['charge', 'pack']
        // Whoever died of the child alone lives again with it.
        const isOver = wasDead && onFailure === 'compensate'
        expect([moment, state, seen]).toEqual(
          isOver ? [moment, 'dead', undone] : [moment, 'completed', ['charge', 'pack', 'ship']],
        )
        ends.add(`${state} ${wasDead}`)
      }
      expect(ends.size).toBe(2)
    })
  }
})

async function runFlow(onFailure: 'fail' | 'compensate', moment: number) {
  const seen: string[] = []
  let isBroken = true
  const undo = defineJob({
    name: 'undo',
    run: (_: { input: null; result: undefined }) => void seen.push('undo charge'),
  })
  const charge = defineJob({ name: 'charge', run: (_: null) => void seen.push('charge') })
  const ship = defineJob({ name: 'ship', run: (_: null) => void seen.push('ship') })
  const pack = defineJob({
    name: 'pack',
    maxAttempts: 1,
    run(_: null) {
      if (isBroken) throw new Error('none left')
      seen.push('pack')
    },
  })
  const mill = testMill({ jobs: [undo, charge, ship, pack], worker: { concurrency: 1 } })
  const children = [
    { job: charge, input: null, compensate: undo },
    { job: pack, input: null, onFailure },
  ]
  const flow = await mill.flow({ job: ship, input: null, children }, { id: 'flow' })
  const child = 'flow.0000002'
  let wasDead = false
  let calls = 0
  const mend = async () => {
    wasDead = (await flow.state()) === 'dead'
    isBroken = false
    await replay(mill, child)
  }
  around(storeOf(mill), async () => {
    if ((await mill.job(child).state()) === 'dead' && calls++ === moment) await mend()
  })
  await mill.drain()
  // The last moment is after all of it.
  const isAfterAll = isBroken
  if (isAfterAll) await mend()
  await mill.drain({ later: true })
  const state = await flow.state()
  await mill.close()
  return { seen, state, wasDead, isAfterAll }
}

/** Calls `at` before and after each call. */
function around(store: Store, at: () => Promise<void>): void {
  let isBusy = false
  const look = async () => {
    if (isBusy) return
    isBusy = true
    await at()
    isBusy = false
  }
  const verbsOf = store as unknown as Record<string, Verb>
  for (const verb of verbs) {
    const real = verbsOf[verb]?.bind(store) as Verb
    verbsOf[verb] = async (...parameters) => {
      await look()
      const result = await real(...parameters)
      await look()
      return result
    }
  }
}
