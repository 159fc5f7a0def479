import { Worker } from 'node:worker_threads'
import { type Child, type Death, entry, outOfMemory } from './child.js'
import { isFromChild } from './protocol.js'

export function startThread(memory: number): Child {
  const thread = new Worker(entry, {
    name: 'millrace-sandbox',
    resourceLimits: { maxOldGenerationSizeMb: memory },
  })
  thread.unref()
  let error: unknown
  thread.on('error', (thrown) => {
    error = thrown
  })
  const child: Child = {
    kind: { type: 'thread', memory },
    task: undefined,
    death: undefined,
    gone: new Promise((resolve) => {
      thread.once('exit', (code) => {
        child.death = describe(code, error, memory)
        child.task?.died(child.death)
        resolve()
      })
    }),
    post: (message) => thread.postMessage(message),
    kill: () => void thread.terminate(),
  }
  thread.on('message', (message: unknown) => {
    if (isFromChild(message)) child.task?.hear(message)
  })
  return child
}

function describe(code: number, error: unknown, memory: number): Death {
  if (error === undefined) return { how: `exited with code ${code}` }
  if ((error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY') return outOfMemory(memory)
  return { how: `failed: ${error instanceof Error ? error.message : String(error)}`, cause: error }
}
