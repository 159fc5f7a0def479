/**
 * The program of a sandbox, in a thread or a process: takes one job at a time, loads its module, runs it and
 * tells how it ended. It knows neither store nor schema nor codec options; its worker does.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { jsonCodec } from '../../core/codec.js'
import { type Directive, isDirective } from '../../core/definition.js'
import { loadHandler } from '../../system/load-handler.js'
import { SandboxContext } from './context.js'
import type { Assignment, Ending, FromChild, ToChild } from './protocol.js'
import { pack } from './thrown.js'

let task = 0
let context: SandboxContext | undefined

const post = isMainThread ? beProcess() : beThread()

// Also of rejections that nobody handled: what such an error leaves behind is not fit for another job.
process.once('uncaughtException', (error) => {
  post({ type: 'crashed', task, error: pack(error) }, () => process.exit(1))
})

function hear(message: ToChild): void {
  if (message.type === 'run') void perform(message)
  else context?.hear(message)
}

async function perform(assignment: Assignment): Promise<void> {
  task = assignment.task
  const own = new SandboxContext(assignment, post)
  context = own
  const ending = await Promise.race([run(assignment, own), own.suspended])
  // A turn later: a rejection that nobody handled shows before the result counts, and not in the next job.
  await new Promise((resolve) => setImmediate(resolve))
  own.end()
  post({ type: 'ended', task, ending, steps: own.takeSteps() })
}

async function run(assignment: Assignment, own: SandboxContext): Promise<Ending> {
  try {
    const handler = await loadHandler(assignment)
    const input = assignment.input === undefined ? undefined : jsonCodec.decode(assignment.input)
    // One that was told to stop while its module was loaded need not begin.
    own.signal.throwIfAborted()
    const value = await settled(handler(input, own), own)
    if (isDirective(value)) return directed(value)
    const { maxResult } = assignment
    return {
      how: 'returned',
      result: value === undefined ? undefined : jsonCodec.encode(value, 'result', maxResult),
    }
  } catch (error) {
    if (isDirective(error)) return directed(error)
    if (own.signal.aborted && error === own.signal.reason) return { how: 'stopped' }
    return { how: 'threw', error: pack(error) }
  }
}

/** The handler's end, once its steps have ended too. */
async function settled(handler: unknown, own: SandboxContext): Promise<unknown> {
  try {
    return await handler
  } finally {
    await own.endSteps()
  }
}

function directed({ kind, delay, reason, cause }: Directive): Ending {
  return {
    how: 'directed',
    kind,
    delay: Number.isFinite(delay) ? delay : String(delay),
    reason: String(reason),
    cause: cause === undefined ? undefined : pack(cause),
  }
}

type Post = (message: FromChild, sent?: () => void) => void

function beThread(): Post {
  parentPort?.on('message', hear)
  return (message, sent) => {
    parentPort?.postMessage(message)
    sent?.()
  }
}

function beProcess(): Post {
  process.on('message', hear)
  process.on('disconnect', () => process.exit())
  // A terminal and a supervisor signal the whole group; its worker decides when it ends.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
  watchParent()
  return (message, sent) => {
    // Without a channel the worker is gone, and 'disconnect' ends this process.
    process.send?.(message, undefined, undefined, () => sent?.())
  }
}

/** A handler that never lets go hears of no disconnect; a thread beside it does not depend on it. */
function watchParent(): void {
  const watch = `
    const { workerData: parent } = require('node:worker_threads')
    setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL') }, 500)`
  new Worker(watch, {
    eval: true,
    execArgv: [],
    workerData: process.ppid,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  }).unref()
}
