/** A store that does not answer: what is held is given up when the lease is over, not when the store gives up. */
import type { ClaimedJob } from 'millrace'
import { VirtualClock } from 'millrace/testing'
import { expect, test } from 'vitest'
import type { Runtime } from '../../src/client/runtime.js'
import type { ExtendResult } from '../../src/core/store.js'
import { nextTurn } from '../../src/system/turn.js'
import { LeaseKeeper } from '../../src/worker/lease.js'
import type { Run } from '../../src/worker/run.js'

const lease = 3_000

function keeper() {
  const clock = new VirtualClock()
  const answers: ((result: ExtendResult) => void)[] = []
  const lost: string[] = []
  const run = { job: { id: 'one', token: 't' }, ended: false, report: () => undefined } as unknown as Run
  const runtime = {
    clock,
    store: { extend: () => new Promise<ExtendResult>((resolve) => answers.push(resolve)) },
    events: { emit() {} },
  } as unknown as Runtime
  const kept = new LeaseKeeper(runtime, 'worker', lease, {
    runs: () => [run],
    unstarted: () => [{ id: 'two', token: 't' } as ClaimedJob],
    leaving: () => [],
    claiming: () => [],
    lost: (id) => lost.push(id),
    cancel() {},
  })
  const answer = async (i: number) => {
    answers[i]?.({ lost: [], cancels: [], open: [], strays: [] })
    await nextTurn()
  }
  return { kept, clock, answers, answer, lost }
}

test('jobs are given up a lease after the last renewal that was answered', async () => {
  const { kept, clock, answers, answer, lost } = keeper()
  void kept.start()
  await answer(0)
  await clock.advance(lease / 3)
  expect(answers).toHaveLength(2)
  await clock.advance((2 * lease) / 3 - 1)
  await nextTurn()
  expect(lost).toEqual([])
  await clock.advance(1)
  await nextTurn()
  expect(lost, 'what has not started goes first').toEqual(['two', 'one'])
})

test('one that is answered in time gives up nothing', async () => {
  const { kept, clock, answer, lost } = keeper()
  void kept.start()
  await answer(0)
  for (let beat = 1; beat < 10; beat++) {
    await clock.advance(lease / 3)
    await answer(beat)
  }
  await nextTurn()
  expect(lost).toEqual([])
})
