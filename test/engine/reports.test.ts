/** Progress, log lines and steps that are on their way when their job ends, in real time: none is lost, none doubled. */
import { defineJob, type ExtendRequest, type ExtendResult, Millrace, type Store } from 'millrace'
import { expect, onTestFinished, test } from 'vitest'
import { storeAt } from '../place.js'
import { freshPlace } from './fresh-place.js'
import { signal } from './mill.js'

type Extend = Store['extend']

/** What becomes of the first renewal that carries something. */
const fates: Record<
  string,
  (real: Extend, request: ExtendRequest, ended: Promise<void>) => Promise<ExtendResult>
> = {
  'arrives after the outcome': async (real, request, ended) => {
    await ended
    return real(request)
  },
  'is answered after the outcome': async (real, request, ended) => {
    const result = await real(request)
    await ended
    return result
  },
  'is lost': () => Promise.reject(new Error('the request was lost')),
  'is carried out, and its answer lost': async (real, request) => {
    await real(request)
    throw new Error('the reply was lost')
  },
}

for (const [fate, extend] of Object.entries(fates)) {
  test(`a report that ${fate} is written once`, async () => {
    const sent = signal()
    const ended = signal()
    const talks = defineJob({
      name: 'talks',
      async run(_: null, { progress, log }) {
        progress(1)
        log('first')
        log('first')
        await sent.promise
        log('last')
        return 'done'
      },
    })
    const { mill, store } = start([talks])
    const real = onFirstReport(store, (real, request) => {
      const result = extend(real, request, ended.promise)
      // Whoever is asked to wait for the outcome lets the handler go on at once; the others are first over.
      if (fate.includes('outcome')) sent.give()
      else void result.catch(() => {}).finally(() => sent.give())
      return result
    })
    await mill.worker({ handleSignals: false }).start()
    const job = await mill.enqueue(talks, null)
    expect(await job.result({ timeout: '10s' })).toBe('done')
    ended.give()
    await real.promise
    const logs = (await store.trail(job.id))?.logs
    expect(logs?.map(({ text }) => text)).toEqual(['first', 'first', 'last'])
    expect(await job.get()).toMatchObject({ state: 'completed', progress: 1 })
  })
}

test('a step that is being written when its worker shuts down is not done again', async () => {
  const sent = signal()
  const ended = signal()
  let done = 0
  const pays = defineJob({
    name: 'pays',
    run: (_: null, { step }) => step('pay', () => ++done),
  })
  const { mill, store } = start([pays])
  const real = onFirstReport(store, async (real, request) => {
    sent.give()
    await ended.promise
    return real(request)
  })
  const worker = mill.worker({ handleSignals: false })
  await worker.start()
  const job = await mill.enqueue(pays, null)
  await sent.promise
  await worker.stop({ grace: 0 })
  ended.give()
  await real.promise
  await mill.worker({ handleSignals: false }).start()
  expect(await job.result({ timeout: '10s' })).toBe(1)
  expect(done).toBe(1)
})

function start(jobs: ConstructorParameters<typeof Millrace>[0]['jobs']): { mill: Millrace; store: Store } {
  const store = storeAt(freshPlace())
  const mill = new Millrace({ store, jobs: jobs ?? [] })
  mill.on('error', () => {})
  onTestFinished(() => mill.close({ grace: 0 }))
  return { mill, store }
}

/** Resolves when the first one is over. */
function onFirstReport(
  store: Store,
  extend: (real: Extend, request: ExtendRequest) => Promise<ExtendResult>,
): { promise: Promise<void> } {
  const over = signal()
  const real = store.extend.bind(store)
  store.extend = (request) => {
    const carries = request.held.some(({ logs, steps }) => logs !== undefined || steps !== undefined)
    if (!carries) return real(request)
    store.extend = real
    return extend(real, request).finally(() => over.give())
  }
  return over
}
