import fc from 'fast-check'
import { isMillraceError, NonRetryableError, RetryAfter } from 'millrace'
import { BatchCollector, type BatchCollectorOptions, RowsLeftError } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'ok',
    (error) => (isMillraceError(error) ? error.code : (error as Error).message),
  )

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A collector in virtual time that notes its batches; `fail` says what the next flushes throw. */
function noting(options: Partial<BatchCollectorOptions<number>> = {}) {
  const clock = new VirtualClock()
  const batches: number[][] = []
  const times: number[] = []
  const fail: unknown[] = []
  const collector = new BatchCollector<number>({
    clock,
    ...options,
    flush: async (rows) => {
      times.push(clock.monotonic())
      const error = fail.shift()
      if (error !== undefined) throw error
      batches.push(rows)
    },
  })
  const add = (...rows: number[]) => rows.map((row) => collector.add(row))
  return { clock, collector, batches, times, fail, add }
}

/** A collector whose flushes end when the test says so. */
function manual(options: Partial<BatchCollectorOptions<number>> = {}) {
  const clock = new VirtualClock()
  const flushes: {
    rows: number[]
    signal: AbortSignal
    resolve: () => void
    reject: (error: unknown) => void
  }[] = []
  const collector = new BatchCollector<number>({
    clock,
    ...options,
    flush: (rows, { signal }) =>
      new Promise<void>((resolve, reject) => flushes.push({ rows, signal, resolve, reject })),
  })
  return { clock, collector, flushes }
}

const fixed = { type: 'fixed', initialDelay: '1s', jitter: 'none' } as const

describe('a batch is flushed', () => {
  test('when it has its size', async () => {
    const { collector, batches, add } = noting({ size: 3 })
    await Promise.all(add(1, 2, 3))
    expect([batches, collector.size]).toEqual([[[1, 2, 3]], 0])
  })

  test('when its oldest row has waited for the interval', async () => {
    const { clock, batches, times, add } = noting({ interval: '1s' })
    const added = add(1)
    await clock.advance(600)
    added.push(...add(2))
    await clock.advance(399)
    expect(batches).toEqual([])
    await clock.advance(1)
    expect([batches, times]).toEqual([[[1, 2]], [1_000]])
    await Promise.all(added)
  })

  test('with all that comes at once, even when the interval is 0', async () => {
    const { clock, batches, add } = noting({ interval: 0 })
    const added = add(1, 2, 3)
    await clock.advance(1)
    await Promise.all(added)
    expect(batches).toEqual([[1, 2, 3]])
  })

  test('when it has its bytes, and never with more, unless a single row has more', async () => {
    const { collector, batches, add } = noting({ bytes: 10, sizeOf: (row) => row })
    const added = add(4, 5)
    expect(batches).toEqual([])
    added.push(...add(3, 7, 25, 1, 0))
    await turn()
    expect(batches).toEqual([[4, 5], [3, 7], [25]])
    await collector.flush()
    await Promise.all(added)
    expect(batches).toEqual([[4, 5], [3, 7], [25], [1, 0]])
  })

  test('on flush(), with all that was added before and nothing else', async () => {
    const { collector, flushes } = manual({ size: 2, interval: '1h' })
    for (const row of [1, 2, 3]) void collector.add(row)
    const flushed = collector.flush()
    expect(flushes.map(({ rows }) => rows)).toEqual([[1, 2]]) // one at a time
    flushes[0]?.resolve()
    await turn()
    expect(flushes.map(({ rows }) => rows)).toEqual([[1, 2], [3]])
    void collector.add(4)
    flushes[1]?.resolve()
    await flushed
    expect([flushes.length, collector.size]).toEqual([2, 1])
  })

  test('on close, which takes nothing more', async () => {
    const { collector, batches, add } = noting({ size: 2, interval: '1h' })
    const added = add(1, 2, 3)
    await Promise.all([collector.close(), collector.close()])
    await Promise.all(added)
    expect(batches).toEqual([[1, 2], [3]])
    expect(await codeOf(collector.add(4))).toBe('CLOSED')
    expect(await codeOf(collector.ready())).toBe('CLOSED')
  })
})

describe('a failed batch', () => {
  test('is tried again as it was, after its backoff, and the rest waits', async () => {
    const seen: number[][] = []
    const clock = new VirtualClock()
    const collector = new BatchCollector<number>({
      clock,
      size: 2,
      retry: { attempts: 3, backoff: fixed },
      flush: (rows, { attempt }) => {
        seen.push([...rows])
        rows.length = 0 // its own copy: nobody else loses rows
        if (attempt < 3) throw new Error('down')
      },
    })
    const added = [1, 2, 3, 4].map((row) => collector.add(row))
    await clock.advance(999)
    expect(seen).toEqual([[1, 2]])
    await clock.advance(1)
    expect(seen).toEqual([
      [1, 2],
      [1, 2],
    ])
    await clock.advance(3_000)
    await Promise.all(added)
    expect(seen.slice(2)).toEqual([
      [1, 2],
      [3, 4],
      [3, 4],
      [3, 4],
    ])
  })

  test('goes to onError when its attempts are spent, and the next one has its own', async () => {
    const lost: unknown[] = []
    const { clock, batches, fail, times, add } = noting({
      size: 2,
      retry: { attempts: 2, backoff: fixed },
      onError: (error, rows) => lost.push([(error as Error).message, rows]),
    })
    fail.push(new Error('first'), new Error('second'))
    const added = add(1, 2, 3, 4) // nobody looks at 2, which is no unhandled rejection: onError has it
    await clock.advance(1_000)
    expect(await codeOf(added[0] as Promise<void>)).toBe('second')
    expect([lost, batches, times]).toEqual([[['second', [1, 2]]], [[3, 4]], [0, 1_000, 1_000]])
  })

  test('rejects flush() and every add when there is no onError', async () => {
    const { collector, fail, add } = noting({ retry: { attempts: 1 } })
    fail.push(new Error('down'))
    const added = add(1, 2).map(codeOf)
    expect(await codeOf(collector.flush())).toBe('down')
    expect(await Promise.all(added)).toEqual(['down', 'down'])
  })

  test('is not tried again after a NonRetryableError, and after a RetryAfter when that says', async () => {
    const { clock, collector, fail, times, add } = noting({ size: 1, retry: { backoff: fixed } })
    fail.push(new RetryAfter('5s'), new RetryAfter('never'), new NonRetryableError('no such table'))
    const added = codeOf(add(1)[0] as Promise<void>)
    await clock.advance(600_000)
    expect([await added, times]).toEqual(['NON_RETRYABLE', [0, 5_000, 305_000]])
    await collector.close()
  })

  test('waits for an onError that takes its time, and close waits for it too', async () => {
    let done = () => {}
    const { collector, batches, fail, add } = noting({
      size: 1,
      retry: { attempts: 1 },
      onError: () => new Promise<void>((resolve) => (done = resolve)),
    })
    fail.push(new Error('down'))
    const added = add(1, 2)
    expect(await codeOf(added[0] as Promise<void>)).toBe('down')
    let closed = false
    const closing = collector.close().then(() => (closed = true))
    await turn()
    expect([batches, closed]).toEqual([[], false])
    done()
    await closing
    expect(batches).toEqual([[2]])
  })
})

describe('backpressure', () => {
  test('counts rows that are being flushed; more wait outside, in order', async () => {
    const { collector, flushes } = manual({ size: 2, highWaterMark: 3, interval: '1h' })
    const added = [1, 2, 3].map((row) => collector.add(row))
    expect([collector.size, collector.isFull]).toEqual([3, true])
    added.push(collector.add(4), collector.add(5))
    expect(collector.size).toBe(3)
    let ready = false
    const waiting = collector.ready().then(() => (ready = true))
    flushes[0]?.resolve()
    await turn()
    expect([collector.size, ready]).toEqual([3, false])
    flushes[1]?.resolve()
    await waiting
    expect(collector.isFull).toBe(false)
    const closed = collector.close()
    flushes[2]?.resolve()
    await Promise.all([closed, ...added])
    expect(flushes.map(({ rows }) => rows)).toEqual([[1, 2], [3, 4], [5]])
  })

  test('counts bytes as well, and lets a row in that is larger than the limit by itself', async () => {
    const { collector, flushes } = manual({
      size: 10,
      highWaterMark: 20,
      bytes: 10,
      sizeOf: (row) => row,
      interval: '1h',
    })
    void collector.add(50)
    expect([collector.size, collector.isFull]).toEqual([1, true])
    void collector.add(1)
    flushes[0]?.resolve()
    await turn()
    expect([collector.size, collector.isFull]).toEqual([1, false])
    void collector.add(19)
    expect(flushes.map(({ rows }) => rows)).toEqual([[50], [1]])
    for (let i = 1; i < 3; i++) {
      flushes[i]?.resolve()
      await turn()
    }
    await collector.close()
    expect(flushes.at(-1)?.rows).toEqual([19])
  })

  test('a wait for ready can be aborted', async () => {
    const { collector, flushes } = manual({ size: 1, highWaterMark: 1 })
    const added = collector.add(1)
    const ready = collector.ready({ signal: AbortSignal.abort(new Error('enough')) })
    expect(await codeOf(ready)).toBe('enough')
    flushes[0]?.resolve()
    await added
  })
})

describe('close', () => {
  test('gives back what failed for good, and flushes the rest', async () => {
    const lost: unknown[] = []
    const { clock, collector, batches, fail, add } = noting({
      size: 2,
      retry: { attempts: 2, backoff: fixed },
      onError: (...args) => lost.push(args),
    })
    fail.push(new Error('down'), new Error('still down'))
    const added = add(1, 2, 3).map(codeOf)
    const closing = collector.close().catch((error) => error)
    await clock.advance(1_000)
    const error = await closing
    expect(error).toBeInstanceOf(RowsLeftError)
    expect(error).toMatchObject({ code: 'CLOSED', rows: [1, 2], cause: { message: 'still down' } })
    expect(error.message).toBe(
      "collector 'collector' was closed with 2 rows left: a flush failed for good with 'still down'; they are in the `rows` of this error",
    )
    expect(await Promise.all(added)).toEqual(['still down', 'still down', 'ok'])
    expect([batches, lost]).toEqual([[[3]], []])
  })

  test('gives everything back in order when its grace ends', async () => {
    const { clock, collector, flushes } = manual({ size: 2, highWaterMark: 3 })
    const added = [1, 2, 3, 4].map((row) => codeOf(collector.add(row)))
    const closing = collector.close({ grace: '5s' }).catch((error) => error)
    await clock.advance(5_000)
    expect(await closing).toMatchObject({ code: 'CLOSED', rows: [1, 2, 3, 4] })
    expect((await closing).message).toMatch(/4 rows left: the grace of 5000 ms ended/)
    expect(await Promise.all(added)).toEqual(Array(4).fill('CLOSED'))
    expect(flushes[0]?.signal.aborted).toBe(true)
    flushes[0]?.resolve()
    await turn()
    expect([flushes.length, collector.size]).toEqual([1, 0])
  })

  test('ends the wait for another attempt; a second call hastens the first', async () => {
    const { collector, fail, times, add } = noting({ size: 1, retry: { backoff: fixed } })
    fail.push(new Error('down'))
    void add(1)
    await turn()
    const first = codeOf(collector.close())
    await expect(collector.close({ grace: 0 })).rejects.toMatchObject({ rows: [1] })
    expect([await first, times]).toEqual(['CLOSED', [0]])
  })

  test('does not give back what onError has', async () => {
    const lost: unknown[] = []
    const { collector, fail, add } = noting({
      size: 1,
      retry: { attempts: 1 },
      onError: (_, rows) => {
        lost.push(...rows)
        return new Promise(() => {})
      },
    })
    fail.push(new Error('down'))
    void add(1, 2)
    await turn()
    await expect(collector.close({ grace: 0 })).rejects.toMatchObject({ rows: [2] })
    expect(lost).toEqual([1])
  })
})

describe('options', () => {
  const flush = () => {}
  test.for<[object, RegExp]>([
    [{}, /^flush is undefined; expected a function/],
    [{ flush, intervall: 1 }, /has no option 'intervall'; did you mean 'interval'\?/],
    [{ flush, size: 0 }, /^size is 0/],
    [{ flush, size: 10, highWaterMark: 9 }, /^highWaterMark is 9; expected a whole number from 10 to/],
    [{ flush, bytes: 10 }, /^sizeOf is undefined; expected a function/],
    [{ flush, sizeOf: () => 1 }, /^bytes is undefined/],
    [{ flush, retry: { attempts: 0 } }, /^retry.attempts is 0/],
    [{ flush, retry: { backoff: { type: 'often' } } }, /^backoff.type is "often"/],
    [{ flush, onError: 1 }, /^onError is 1/],
  ])('%o', ([options, message]) => {
    expect(() => new BatchCollector(options as never)).toThrow(message)
  })

  test.for([Number.NaN, -1, 0.5])('sizeOf that returns %s refuses the row', async (bytes) => {
    const collector = new BatchCollector<number>({ flush, bytes: 10, sizeOf: () => bytes })
    await expect(collector.add(1)).rejects.toThrow(/^sizeOf\(\) is /)
    expect(collector.size).toBe(0)
  })
})

test('whatever fails, every row ends in exactly one place, in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        size: fc.integer({ min: 1, max: 5 }),
        spare: fc.nat(5),
        bytes: fc.integer({ min: 1, max: 20 }),
        attempts: fc.integer({ min: 1, max: 3 }),
        interval: fc.nat(50),
        grace: fc.constantFrom(0, 100, 100_000),
      }),
      fc.array(
        fc.oneof(
          fc.record({ bytes: fc.nat(30) }),
          fc.record({ wait: fc.nat(60) }),
          fc.constant('flush' as const),
        ),
        {
          maxLength: 60,
          size: 'max',
        },
      ),
      fc.infiniteStream(fc.boolean()),
      async ({ size, spare, bytes, attempts, interval, grace }, steps, fails) => {
        const clock = new VirtualClock()
        const flushed: number[] = []
        const handed: number[] = []
        const settled = new Map<number, string>()
        const sizes: number[] = []
        let flushing = 0
        const wrong: number[][] = []
        const collector = new BatchCollector<number>({
          clock,
          size,
          highWaterMark: size + spare,
          bytes,
          sizeOf: (row) => sizes[row] as number,
          interval,
          retry: { attempts, backoff: { type: 'fixed', initialDelay: 20, jitter: 'full' } },
          onError: (_, rows) => void handed.push(...rows),
          flush: async (rows) => {
            const sum = rows.reduce((sum, row) => sum + Math.max(1, sizes[row] as number), 0)
            const allowed = flushing++ === 0 && rows.length <= size && (rows.length === 1 || sum <= bytes)
            if (!allowed) wrong.push(rows)
            await turn()
            flushing--
            if (fails.next().value) throw new Error('down')
            flushed.push(...rows)
          },
        })
        for (const step of steps) {
          if (step === 'flush') void collector.flush().catch(() => {})
          else if ('wait' in step) await clock.advance(step.wait)
          else {
            const row = sizes.push(step.bytes) - 1
            collector.add(row).then(
              () => settled.set(row, 'flushed'),
              () => settled.set(row, 'failed'),
            )
          }
          expect(collector.size).toBeLessThanOrEqual(size + spare)
        }
        const closing = collector.close({ grace }).then(
          (): readonly number[] => [],
          (error: RowsLeftError<number>) => error.rows,
        )
        await clock.advance(100_000)
        const left = await closing
        await turn()
        if (grace === 0) await turn() // a flush that was under way may still arrive; its rows came back as well

        expect(wrong).toEqual([])
        const ascending = (rows: readonly number[]) =>
          rows.every((row, i) => i === 0 || row > (rows[i - 1] as number))
        expect([flushed, handed, left].map(ascending)).toEqual([true, true, true])
        const fine = sizes.map((_, row) => row).filter((row) => settled.get(row) === 'flushed')
        const failed = sizes.map((_, row) => row).filter((row) => settled.get(row) === 'failed')
        expect(failed).toEqual([...handed, ...left].sort((a, b) => a - b))
        expect(flushed.filter((row) => !left.includes(row))).toEqual(fine)
        expect(fine.length + failed.length).toBe(sizes.length)
      },
    ),
    { numRuns: 200 },
  )
})
