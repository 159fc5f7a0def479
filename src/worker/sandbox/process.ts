import { type ChildProcess, fork } from 'node:child_process'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Child, type Death, entry, outOfMemory } from './child.js'
import { inheritedArguments, inheritedEnvironment } from './inherit.js'
import { isFromChild } from './protocol.js'

/** The last words of V8 come through stderr, which may be read a moment after the exit. */
const lastWordsMs = 200

export function startProcess(memory: number): Child {
  const child = fork(fileURLToPath(entry), [], {
    execArgv: [...inheritedArguments(process.execArgv), `--max-old-space-size=${memory}`],
    env: inheritedEnvironment(process.env),
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  child.unref()
  child.channel?.unref()
  const sandbox: Child = {
    kind: { type: 'process', memory },
    task: undefined,
    death: undefined,
    gone: deathOf(child, memory).then((death) => {
      sandbox.death = death
      sandbox.task?.died(death)
    }),
    // Whether it arrives shows by its effect: a child that is gone is heard of by its death.
    post: (message) => child.connected && child.send(message, () => {}),
    kill: () => child.kill('SIGKILL'),
  }
  child.on('message', (message) => {
    if (isFromChild(message)) sandbox.task?.hear(message)
  })
  return sandbox
}

function deathOf(child: ChildProcess, memory: number): Promise<Death> {
  const lastWords = passOn(child.stderr as Socket)
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ how: `could not be started: ${error.message}`, cause: error }))
    child.once('exit', (code, signal) => {
      const conclude = () => resolve(describe(code, signal, lastWords(), memory))
      child.once('close', conclude)
      setTimeout(conclude, lastWordsMs).unref()
    })
  })
}

/** What it writes to stderr is written to that of the worker. Returns a function that gives the end of it. */
function passOn(stderr: Socket): () => string {
  let words = ''
  stderr.unref()
  stderr.on('data', (chunk: Buffer) => {
    process.stderr.write(chunk)
    words = (words + chunk.toString('latin1')).slice(-16_384)
  })
  return () => words
}

function describe(code: number | null, signal: string | null, words: string, memory: number): Death {
  if (words.includes('JavaScript heap out of memory')) return outOfMemory(memory)
  if (signal === null) return { how: `exited with code ${code}` }
  return { how: signal === 'SIGABRT' ? 'aborted (SIGABRT)' : `was killed by ${signal}` }
}
