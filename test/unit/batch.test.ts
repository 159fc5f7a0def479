import { cancel, defineBatchJob, defineJob } from 'millrace'
import { runBatch, runJob, VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { bounds } from '../../src/core/bounds.js'
import type { AnyJob } from '../../src/core/definition.js'
import type { ClaimedJob } from '../../src/core/job.js'
import { compileLanes } from '../../src/core/options.js'
import { Batches } from '../../src/worker/batch.js'
import { Fetcher } from '../../src/worker/fetch.js'

const everyLane = () => true

function claimed(input: string | number, fields: Partial<ClaimedJob> = {}): ClaimedJob {
  return {
    id: String(input),
    token: 'token',
    name: 'work',
    queue: 'default',
    lane: 2,
    input: JSON.stringify(input),
    attempt: 1,
    crashes: 0,
    maxAttempts: 3,
    maxCrashes: 3,
    createdAt: 0,
    readyAt: 0,
    startedAt: 0,
    retryDelay: 0,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    group: undefined,
    key: undefined,
    suspect: false,
    family: undefined,
    guard: undefined,
    stepped: false,
    ...fields,
  }
}

/** Batches of jobs whose key is the first letter of their input. */
function collector(options: { size: number; wait: number }, clock = new VirtualClock()) {
  const work = defineBatchJob({ name: 'work', batch: options, run: (_: string[]) => {} })
  let due = 0
  const batches = new Batches(clock, new Map<string, AnyJob>([['work', work]]), {
    keyOf: (_, job) => JSON.parse(job.input).toString().slice(0, 1),
    due: () => void due++,
  })
  const start = () => {
    const batch = batches.next(everyLane)
    if (batch !== undefined) batches.take(batch)
    return batch?.jobs.map((job) => job.id).join(' ')
  }
  return { batches, clock, start, due: () => due }
}

describe('the batches of a worker', () => {
  test('are found when full, when due, and in the order of their claims', async () => {
    const { batches, clock, start, due } = collector({ size: 2, wait: 50 })
    batches.collect([claimed('a1', { startedAt: 1 }), claimed('b1', { startedAt: 1 })], false)
    await clock.advance(20)
    batches.collect([claimed('b2', { startedAt: 2 }), claimed('c1', { startedAt: 2 })], false)
    expect(batches).toMatchObject({ size: 4, complete: 2, lacking: 2 })
    expect(start()).toBe('b1 b2')
    expect(start()).toBeUndefined()
    expect(batches.dueAt).toBe(50)
    await clock.advance(30)
    expect(due()).toBe(1)
    batches.collect([claimed('d1', { startedAt: 3 }), claimed('d2', { startedAt: 3 })], false)
    expect([start(), start(), start()]).toEqual(['a1', 'd1 d2', undefined])
    await clock.advance(20)
    expect(due()).toBe(2)
    expect(start()).toBe('c1')
    expect(batches).toMatchObject({ size: 0, complete: 0, lacking: 0, dueAt: undefined })
  })

  test('that do not wait are kept for one more answer, when there may be more', async () => {
    const { batches, clock, start } = collector({ size: 3, wait: 0 })
    batches.collect([claimed('a1')], true)
    expect(start()).toBeUndefined()
    batches.collect([claimed('a2')], true)
    expect(start()).toBe('a1 a2')
    batches.collect([claimed('a3')], false)
    expect(start()).toBe('a3')
    // The answer never comes.
    batches.collect([claimed('a4')], true)
    await clock.advance(10)
    expect(start()).toBe('a4')
  })

  test('let single jobs go', () => {
    const { batches, start } = collector({ size: 2, wait: 0 })
    batches.collect(
      ['a1', 'b1', 'b2', 'c1'].map((id) => claimed(id)),
      false,
    )
    const removed = batches.remove((job) => ['a1', 'b2'].includes(job.id))
    expect(removed.map((job) => job.id).sort()).toEqual(['a1', 'b2'])
    expect(batches).toMatchObject({ size: 2, complete: 1, lacking: 1 })
    expect([start(), start(), start()]).toEqual(['b1', 'c1', undefined])
    expect(batches).toMatchObject({ size: 0, complete: 0, lacking: 0 })
  })

  test('are bounded: beyond it the oldest waits no longer', () => {
    const { batches, start } = collector({ size: 1000, wait: 3600_000 })
    const letters = Array.from({ length: 20 }, (_, i) => String.fromCharCode(97 + i))
    for (let i = 0; i <= bounds.collected / 20; i++) {
      batches.collect(
        letters.map((letter) => claimed(`${letter}${i}`, { startedAt: i })),
        true,
      )
      if (batches.size <= bounds.collected) expect(batches.next(everyLane)).toBeUndefined()
    }
    expect(batches.size).toBeGreaterThan(bounds.collected)
    expect(start()).toMatch(/^a0 a1 /)
    expect(start()).toBeUndefined()
  })

  test('leave jobs of other definitions, on their last life or under suspicion to themselves', () => {
    const { batches } = collector({ size: 2, wait: 0 })
    const single = [
      claimed('a1', { name: 'other' }),
      claimed('a2', { crashes: 2 }),
      claimed('a3', { suspect: true }),
    ]
    expect(batches.collect([...single, claimed('a4')], false)).toEqual(single)
    expect(batches.size).toBe(1)
    expect(batches.width([...single, claimed('a4')])).toBe(7 / 4)
  })
})

describe('how many jobs are asked for', () => {
  const idle = [0, 0, 0, 0]
  const none = { waiting: 0, collected: 0, complete: 0, lacking: 0 }
  const jobs = [claimed(1), claimed(2)]

  function fetcher(reserved = {}) {
    const lanes = compileLanes({ reserved }, 10)
    const fetch = new Fetcher({
      concurrency: 10,
      queues: ['default'],
      known: new Set(),
      lanes,
      lease: 30_000,
      prefetch: 0,
    })
    const ask = (unstarted: Partial<typeof none> = {}, active: number[] = idle) => {
      const room = fetch.plan(active, { ...none, ...unstarted }, 1)?.room
      return room === undefined ? 0 : room.own.reduce((sum, n) => sum + n, room.shared)
    }
    return { fetch, ask }
  }

  test('as many as slots are free until batches were seen, then what they lack', () => {
    const { fetch, ask } = fetcher()
    expect(ask()).toBe(10)
    fetch.learn(10, jobs, false, 100)
    expect(ask()).toBe(109)
    expect(ask({ collected: 30, lacking: 70 })).toBe(80)
    expect(ask({ collected: 30, lacking: 70 }, [0, 0, 10, 0])).toBe(70)
    expect(ask({}, [0, 0, 10, 0])).toBe(0)
    expect(ask({ collected: 130, complete: 100, lacking: 70 }, [0, 0, 10, 0])).toBe(0)
    expect(ask({ collected: bounds.collected, lacking: 5_000 })).toBe(10)
  })

  test('few for batches when most jobs run by themselves', () => {
    const { fetch, ask } = fetcher()
    fetch.learn(10, jobs, false, 1)
    fetch.learn(10, jobs, false, 3)
    expect(ask({ collected: 1, lacking: 99 })).toBe(11)
    expect(ask({ waiting: 10, collected: 1, lacking: 99 })).toBe(1)
    expect(ask({ waiting: 11, collected: 1, lacking: 99 })).toBe(0)
    fetch.learn(10, jobs, false, 1)
    expect(ask({}, [0, 0, 10, 0])).toBe(0)
    expect(ask({ collected: 1, lacking: 99 }, [0, 0, 10, 0])).toBe(1)
    expect(ask({})).toBe(10)
  })

  test('no more than the slots when some are reserved, and those stay free', () => {
    const { fetch, ask } = fetcher({ critical: 2 })
    fetch.learn(10, jobs, false, 100)
    expect(ask({ collected: 30, lacking: 70 })).toBe(10)
    expect(fetch.hasSlot([0, 0, 7, 0], 2)).toBe(true)
    expect(fetch.hasSlot([0, 0, 8, 0], 2)).toBe(false)
    expect(fetch.hasSlot([1, 0, 8, 0], 0)).toBe(true)
  })
})

describe('runBatch', () => {
  const insert = defineBatchJob({
    name: 'insert',
    batch: { size: 2 },
    run: (rows: string[], { jobs, size }) => {
      for (const job of jobs) job.log(`one of ${size}`)
      return rows.map((row) => {
        if (row === 'bad') return new Error('refused')
        return row === 'gone' ? cancel('no such row') : `stored ${row}`
      })
    },
  })

  test('gives what became of each input', async () => {
    const results = await runBatch(insert, ['a', 'bad', 'gone'])
    expect(results).toMatchObject([
      { state: 'completed', result: 'stored a', logs: [{ text: 'one of 3' }] },
      { state: 'retrying', failure: { message: 'refused' } },
      { state: 'cancelled' },
    ])
    expect((await runBatch(insert, ['bad'], { attempt: 3 }))[0]?.state).toBe('dead')
    expect(await runBatch(insert, [])).toEqual([])
  })

  test('runJob gives the handler a batch of one', async () => {
    expect(await runJob(insert, 'a')).toMatchObject({ result: 'stored a', logs: [{ text: 'one of 1' }] })
    expect(await runJob(insert, 'bad')).toMatchObject({ state: 'retrying', failure: { message: 'refused' } })
    expect(await runJob(insert, 'gone')).toMatchObject({ state: 'cancelled' })
  })

  test('wants a batch job', async () => {
    const single = defineJob({ name: 'single', run: (_: number) => {} })
    await expect(runBatch(single, [1])).rejects.toThrow(/expected a job made by defineBatchJob/)
  })
})

test.for<[string, object, RegExp]>([
  ['size', { batch: { size: 0 } }, /batch\.size is 0; expected a whole number from 1 to 1000/],
  ['wait', { batch: { wait: '2h' } }, /batch\.wait is "2h"; .* from 0 to 3600000 ms/],
  ['by', { batch: { by: 'table' } }, /batch\.by is "table"; expected a function/],
  ['a misspelt option', { batch: { sise: 3 } }, /batch has no option 'sise'; did you mean 'size'\?/],
  ['one beside it', { bach: {} }, /defineBatchJob has no option 'bach'; did you mean 'batch'\?/],
  ['run', { run: 'fast' }, /run is "fast"; expected a function \(inputs, context\) => outcomes/],
  ['sandbox', { sandbox: {} }, /defineBatchJob has no option 'sandbox'/],
  ['what every job has', { timeout: 'soon' }, /timeout is "soon"/],
])('defineBatchJob refuses a wrong %s', ([, options, message]) => {
  const whole = { name: 'work', run: (_: number[]) => {}, ...options } as Parameters<typeof defineBatchJob>[0]
  expect(() => defineBatchJob(whole)).toThrow(message)
})
