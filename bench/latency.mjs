// From the call that adds a job to the first line of its handler, for Millrace and for peers.
import { fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { percentile } from './statistics.mjs'

const patience = 30_000

/** The handler calls `started`, here or, through `workerApart`, in another process. */
export function stopwatch() {
  let resolveStart = () => {}
  return { started: (at = microseconds()) => resolveStart(at), sample }

  /** Adds one job after another, each after a pause in which the worker falls idle. */
  async function sample({ jobs: samples, pause }, add) {
    const times = []
    for (let n = 0; n < samples; n++) {
      await sleep(pause * (1 + Math.random() / 3))
      const start = new Promise((resolve) => {
        resolveStart = resolve
      })
      const called = microseconds()
      await add(n)
      const late = setTimeout(() => resolveStart(Number.NaN), patience)
      times.push(((await start) - called) / 1000)
      clearTimeout(late)
      if (Number.isNaN(times.at(-1))) throw new Error(`a job did not start within ${patience / 1000} s`)
    }
    return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
  }
}

/** A worker in a second process: `serveLatency` of the same module, which ends in `serve`. */
export function workerApart(module, options, started) {
  const child = fileURLToPath(new URL('child.mjs', import.meta.url))
  const spec = { module, measure: 'serveLatency', options }
  const running = fork(child, [JSON.stringify(spec)], { stdio: ['ignore', 2, 2, 'ipc'] })
  const ready = new Promise((resolve, reject) => {
    running.on('message', (message) => {
      if (message.problem !== undefined) reject(new Error(message.problem))
      else if (message.ready) resolve()
      else started(message.at)
    })
    running.on('exit', () => reject(new Error('the worker process ended')))
  })
  return {
    start: () => ready,
    stop: () => new Promise((resolve) => running.on('exit', resolve).kill('SIGKILL')),
  }
}

/** The other process's side: `start` is given what a handler calls. */
export async function serve(start) {
  await start(() => process.send({ at: microseconds() }))
  process.send({ ready: true })
  await new Promise(() => {})
}

/** The monotonic clock of the machine: the same in every process. */
function microseconds() {
  return Number(process.hrtime.bigint() / 1000n)
}
