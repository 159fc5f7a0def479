import type { FromChild, ToChild } from './protocol.js'

/** What tells children apart: a job gets one of its own kind. */
export interface Kind {
  readonly type: 'thread' | 'process'
  /** MiB of heap. */
  readonly memory: number
}

/** A thread or a process as its worker sees it. It never keeps the worker's process alive. */
export interface Child {
  readonly kind: Kind
  /** Who listens: the task that it has now. */
  task: ChildListener | undefined
  /** How it ended, once it has. */
  death: Death | undefined
  /** Resolves when it has ended. */
  readonly gone: Promise<void>
  post(message: ToChild): void
  /** Ends it, whatever it does. */
  kill(): void
}

interface ChildListener {
  hear(message: FromChild): void
  died(death: Death): void
}

export interface Death {
  /** What happened to it: 'exited with code 7'. */
  readonly how: string
  readonly cause?: unknown
}

export function outOfMemory(memory: number): Death {
  return { how: `ran out of memory: its heap reached the limit of ${memory} MiB (sandbox.memory)` }
}

/** The program of a child. Node runs no TypeScript, so from the sources it is the built one. */
export const entry = new URL(
  import.meta.url.endsWith('.ts')
    ? import.meta.url.replace(/\/src\/worker\/sandbox\/[^/]*$/, '/dist/worker/sandbox/entry.js')
    : './entry.js',
  import.meta.url,
)
