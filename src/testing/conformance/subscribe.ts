import assert from 'node:assert/strict'
import { released } from '../../core/lifecycle.js'
import type { Signal } from '../../core/store.js'
import {
  claim,
  complete,
  insertOne,
  newJob,
  nextSignal,
  replay,
  retryIn,
  running,
  settle,
  sweep,
  type Test,
} from './helpers.js'

/** Signals are awaited, never timed: a test whose signal does not come runs into the runner's own limit. */
export function subscribe(test: Test): void {
  test('ready: after an insert, with the queues', async ({ store }) => {
    const signal = nextSignal(store, readyIn('a'))
    await store.insert([newJob({ queue: 'a' })])
    await signal
  })

  test('ready: for each queue of a batch', async ({ store }) => {
    const signals = Promise.all(['a', 'b'].map((queue) => nextSignal(store, readyIn(queue))))
    await store.insert([newJob({ queue: 'a' }), newJob({ queue: 'b' })])
    await signals
  })

  test('ready: when a sweep makes a job ready', async ({ store, advance }) => {
    await insertOne(store, { queue: 'a', delay: 5 })
    await advance(5)
    const signal = nextSignal(store, readyIn('a'))
    await sweep(store)
    await signal
  })

  test('ready: when an operator promotes or replays a job', async ({ store }) => {
    const id = await insertOne(store, { queue: 'a', delay: 5 })
    const promoted = nextSignal(store, readyIn('a'))
    await store.operate({ ids: [id] }, { do: 'promote' })
    await promoted
    const job = await running(store)
    await settle(store, job, complete())
    const replayed = nextSignal(store, readyIn('b'))
    await replay(store, job.id, { queue: 'b' })
    await replayed
  })

  test('ready: when a job is released, and for jobs that a handler added', async ({ store }) => {
    const job = await running(store, { queue: 'a' })
    const signals = Promise.all(['a', 'b'].map((queue) => nextSignal(store, readyIn(queue))))
    await settle(store, job, released(), { inserts: [newJob({ queue: 'b' })] })
    await signals
  })

  test('ready: when a queue is resumed', async ({ store }) => {
    await store.configure({ queue: 'a', paused: true })
    await insertOne(store, { queue: 'a' })
    const signal = nextSignal(store, readyIn('a'))
    await store.configure({ queue: 'a', paused: false })
    await signal
  })

  test('due: after an insert for later, a retry and a replay with a delay', async ({ store }) => {
    const inserted = nextSignal(store, dueIn(500))
    await insertOne(store, { delay: 500 })
    await inserted
    const job = await running(store)
    const retried = nextSignal(store, dueIn(70))
    await settle(store, job, retryIn(70))
    await retried
    const replayed = nextSignal(store, dueIn(30))
    const done = await running(store)
    await settle(store, done, complete())
    await replay(store, done.id, {}, 30)
    await replayed
  })

  test('settled: with what was settled', async ({ store }) => {
    const job = await running(store)
    const signal = nextSignal(store, ({ type }) => type === 'settled')
    await settle(store, job, complete('"here"'))
    const { settlements } = (await signal) as Extract<Signal, { type: 'settled' }>
    const found = settlements.find(({ id }) => id === job.id)
    assert.equal(found?.outcome.result, '"here"')
  })

  test('cancel: when a running job is asked to stop', async ({ store }) => {
    const job = await running(store)
    const signal = nextSignal(store, ({ type }) => type === 'cancel')
    await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'x', retain: 0 })
    await signal
  })

  test('a signal comes when what it tells can be read', async ({ store }) => {
    const seen = new Promise<number>((resolve, reject) => {
      const unsubscribe = store.subscribe((signal) => {
        if (signal.type !== 'ready') return
        unsubscribe()
        claim(store, 5, { queues: [...signal.queues] }).then((jobs) => resolve(jobs.length), reject)
      })
    })
    await store.insert([newJob({ queue: 'a' }), newJob({ queue: 'a' })])
    assert.equal(await seen, 2)
  })

  test('who has unsubscribed hears nothing, the others do', async ({ store }) => {
    const heard: Signal[] = []
    const unsubscribe = store.subscribe((signal) => heard.push(signal))
    unsubscribe()
    unsubscribe()
    const other = nextSignal(store, readyIn('a'))
    await store.insert([newJob({ queue: 'a' })])
    await other
    assert.deepEqual(heard, [])
  })

  test('another handle on the same data hears that something changed', async ({ store, second }) => {
    if (second === undefined) return
    const other = await second()
    const signal = nextSignal(other, () => true)
    await insertOne(store)
    await signal
    assert.equal((await claim(other, 1)).length, 1)
  })
}

function readyIn(queue: string): (signal: Signal) => boolean {
  return (signal) => signal.type === 'ready' && signal.queues.has(queue)
}

function dueIn(delay: number): (signal: Signal) => boolean {
  return (signal) => signal.type === 'due' && signal.delay === delay
}
