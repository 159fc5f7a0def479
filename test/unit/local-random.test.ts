import fc from 'fast-check'
import { LocalQueue, type Overflow } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { expect, test } from 'vitest'
import { turn } from './local-queues.js'

/** What the random test does next; the numbers choose among what there is. */
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('push' as const),
      size: fc.nat(12),
      priority: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('tryPush' as const),
      size: fc.nat(12),
      priority: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('resolve' as const, 'reject' as const, 'abort' as const),
      which: fc.nat(20),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('ready' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat(150) }) },
)

const setup = fc.record({
  concurrency: fc.integer({ min: 1, max: 4 }),
  highWaterMark: fc.integer({ min: 1, max: 20 }),
  low: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  overflow: fc.constantFrom<Overflow>('wait', 'reject', 'dropOldest'),
  rate: fc.option(fc.record({ max: fc.integer({ min: 1, max: 3 }), per: fc.integer({ min: 1, max: 100 }) }), {
    nil: undefined,
  }),
})

test('whatever happens, promises settle, marks and rate hold, and order is kept', async () => {
  await fc.assert(
    fc.asyncProperty(
      setup,
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.boolean(),
      async ({ low, rate, ...options }, steps, drain) => {
        interface Item {
          readonly order: number
          readonly size: number
          readonly priority: number
        }
        const clock = new VirtualClock()
        const started: Item[] = []
        const startedAt: number[] = []
        const running: { resolve: () => void; reject: (error: unknown) => void }[] = []
        const queue = new LocalQueue<Item>({
          ...options,
          lowWaterMark: Math.floor(options.highWaterMark * low),
          ...(rate && { rate }),
          size: (item) => item.size,
          clock,
          run: (item) => {
            started.push(item)
            startedAt.push(clock.monotonic())
            return new Promise((resolve, reject) => running.push({ resolve, reject }))
          },
        })
        const crossings: string[] = []
        for (const name of ['full', 'ready'] as const) queue.on(name, () => crossings.push(name))
        const aborts: AbortController[] = []
        let open = 0
        let order = 0
        const follow = (promise: Promise<unknown>) => {
          open++
          const ended = () => void open--
          promise.then(ended, ended)
        }

        for (const step of steps) {
          switch (step.do) {
            case 'push':
            case 'tryPush': {
              const abort = new AbortController()
              const item = { order: order++, size: step.size, priority: step.priority }
              const before = queue.size
              const promise = queue[step.do](item, { priority: step.priority, signal: abort.signal })
              if (promise !== undefined) {
                follow(promise)
                aborts.push(abort)
                if (step.do === 'tryPush' && before > 0)
                  expect(queue.size).toBeLessThanOrEqual(options.highWaterMark)
              } else expect([queue.isFull, queue.size]).toEqual([true, before])
              break
            }
            case 'resolve':
            case 'reject':
              running.splice(step.which % (running.length || 1), 1)[0]?.[step.do](new Error('meant'))
              break
            case 'abort':
              aborts[step.which % (aborts.length || 1)]?.abort()
              break
            case 'ready':
              follow(queue.ready())
              break
            case 'advance':
              await clock.advance(step.ms)
          }
          await turn()
          expect(queue.size <= options.highWaterMark || queue.pending + queue.running === 1).toBe(true)
          expect(queue.running).toBeLessThanOrEqual(options.concurrency)
          if (queue.size >= options.highWaterMark) expect(queue.isFull).toBe(true)
        }

        if (drain) {
          // Nothing is stuck: when every run ends, all that was pushed gets its turn.
          for (let left = order; left >= 0; left--) {
            for (const run of running.splice(0)) run.resolve()
            await clock.advance(rate?.per ?? 0)
          }
          expect([open, queue.running]).toEqual([0, 0])
        }
        const closed = queue.close({ drain, grace: 1_000 })
        await clock.advance(1_000)
        await closed
        await turn()
        expect([open, queue.size, queue.pending, queue.running, queue.isFull]).toEqual([0, 0, 0, 0, false])
        expect(crossings).toEqual(crossings.map((_, i) => (i % 2 === 0 ? 'full' : 'ready')))
        expect(crossings.length % 2).toBe(0)
        for (const priority of [-1, 0, 1]) {
          const orders = started.filter((item) => item.priority === priority).map((item) => item.order)
          expect(orders).toEqual([...orders].sort((a, b) => a - b))
        }
        if (rate !== undefined) {
          for (const [i, at] of startedAt.slice(rate.max).entries())
            expect(at - (startedAt[i] as number)).toBeGreaterThanOrEqual(rate.per)
        }
      },
    ),
    { numRuns: 300 },
  )
})
