/** How many exchanges a worker has on their way, and what becomes of those that are not answered. */
import type { ClaimedJob } from 'millrace'
import { expect, test } from 'vitest'
import type { Runtime } from '../../src/client/runtime.js'
import { completed } from '../../src/core/lifecycle.js'
import type { ClaimRequest, ExchangeRequest, ExchangeResult } from '../../src/core/store.js'
import { sizeOf } from '../../src/worker/fetch.js'
import { Exchange } from '../../src/worker/settle.js'

/** So many outcomes go out at once, where two exchanges are on their way. */
const most = 500
const room = 2 * most + 200

function talk({ remote }: { remote: boolean }) {
  const calls: {
    request: ExchangeRequest
    answer: (jobs: number) => Promise<void>
    fail: () => Promise<void>
  }[] = []
  const timers: (() => void)[] = []
  const held: ClaimedJob[] = []
  const settled: string[] = []
  let serial = 0
  const runtime = {
    store: {
      capabilities: { remote },
      exchange: (request: ExchangeRequest) =>
        new Promise<ExchangeResult>((resolve, reject) => {
          const answer = async (jobs: number) => {
            const claimed = Array.from(
              { length: jobs },
              () => ({ id: `job-${++serial}`, token: 't' }) as ClaimedJob,
            )
            resolve({ settled: request.settlements.map(() => 'applied'), claimed, opens: undefined })
            await turn()
          }
          const fail = async () => {
            reject(new Error('no answer'))
            await turn()
          }
          calls.push({ request, answer, fail })
        }),
    },
    events: { emit() {} },
    clock: { after: (_: number, fn: () => void) => timers.push(fn) },
    random: () => 0,
  } as unknown as Runtime
  const exchange: Exchange = new Exchange(runtime, 'worker', {
    wanted: (_, coming) => {
      const free = room - held.length - coming
      return free > 0 ? ({ token: `claim-${++serial}`, room: { shared: free, own: [] } } as never) : undefined
    },
    claimed: (_, jobs) => void held.push(...jobs),
    exchanged() {},
    settled: (job) => void settled.push(job.id),
  })
  const finish = async (count: number) => {
    for (let i = 0; i < count; i++)
      exchange.settle(held.shift() as ClaimedJob, completed(undefined, { completed: 0, dead: 0 }))
    await turn()
  }
  return { exchange, calls, timers, held, settled, finish }
}

/** All that is gathered for the end of a turn is done. */
function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}

const asked = ({ claim }: ExchangeRequest) => (claim === undefined ? 0 : sizeOf(claim as ClaimRequest))

test('a server gets a second one while it works on the first, never a third, and never more claims than room', async () => {
  const { exchange, calls, held, finish, settled } = talk({ remote: true })
  exchange.wake()
  await turn()
  await calls[0]?.answer(room)
  await finish(room)
  expect(calls.slice(1).map(({ request }) => request.settlements.length)).toEqual([most, most])
  expect(calls.slice(1).map(({ request }) => asked(request))).toEqual([most, most])
  expect(exchange.claiming).toHaveLength(2)
  expect([...exchange.leaving()]).toHaveLength(room)
  await calls[1]?.answer(most)
  expect(calls).toHaveLength(3)
  await calls[2]?.answer(most)
  expect(calls[3]?.request.settlements).toHaveLength(200)
  expect(asked((calls[3] as (typeof calls)[number]).request)).toBe(200)
  await calls[3]?.answer(0)
  expect(held).toHaveLength(2 * most)
  expect(settled).toHaveLength(room)
})

test('few jobs, and a store in the process, have one at a time', async () => {
  for (const [remote, jobs] of [
    [true, 99],
    [false, 600],
  ] as const) {
    const { exchange, calls, finish } = talk({ remote })
    exchange.wake()
    await turn()
    await calls[0]?.answer(jobs)
    await finish(jobs)
    expect(calls).toHaveLength(2)
    expect(calls[1]?.request.settlements).toHaveLength(jobs)
  }
})

test('however many have ended meanwhile, a thousand go out at once', async () => {
  const { exchange, calls, finish, settled } = talk({ remote: false })
  exchange.wake()
  await turn()
  await calls[0]?.answer(room)
  await finish(room)
  expect(calls[1]?.request.settlements).toHaveLength(1_000)
  await calls[1]?.answer(0)
  expect(calls[2]?.request.settlements).toHaveLength(room - 1_000)
  await calls[2]?.answer(0)
  expect(settled).toHaveLength(room)
})

test('what two that were not answered had is sent again, each claim by its token', async () => {
  const { exchange, calls, finish, timers, settled } = talk({ remote: true })
  exchange.wake()
  await turn()
  await calls[0]?.answer(room)
  await finish(2 * most)
  const [, first, second] = calls
  await first?.fail()
  await second?.fail()
  expect(calls).toHaveLength(3)
  expect(timers).toHaveLength(1)
  expect(exchange.idle).toBe(false)
  expect(exchange.claiming).toEqual([first?.request.claim?.token, second?.request.claim?.token])
  timers[0]?.()
  await turn()
  expect(calls[3]?.request.settlements).toHaveLength(2 * most)
  expect(calls[3]?.request.claim?.token).toBe(first?.request.claim?.token)
  await calls[3]?.answer(most)
  expect(calls[4]?.request.claim?.token).toBe(second?.request.claim?.token)
  await calls[4]?.answer(most)
  expect(settled).toHaveLength(2 * most)
  expect(exchange.claiming).toEqual([])
})
