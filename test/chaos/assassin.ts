/**
 * A thread that kills its process after a delay, whatever the main thread is doing: the only way to die in
 * the middle of a synchronous transaction or migration at a chosen moment.
 */
import { isMainThread, Worker, workerData } from 'node:worker_threads'

interface Order {
  readonly word: SharedArrayBuffer
}

/** Hires the thread; the returned function starts its clock. */
export async function hireAssassin(): Promise<(delayMs: number) => void> {
  const word = new SharedArrayBuffer(4)
  const order: Order = { word }
  const thread = new Worker(new URL(import.meta.url), { workerData: order })
  await new Promise((resolve) => thread.once('online', resolve))
  thread.unref()
  return (delayMs) => {
    const view = new Int32Array(word)
    // In microseconds, plus one: zero means no order yet.
    Atomics.store(view, 0, Math.round(delayMs * 1000) + 1)
    Atomics.notify(view, 0)
  }
}

function waitAndKill({ word }: Order): void {
  const view = new Int32Array(word)
  Atomics.wait(view, 0, 0)
  const end = performance.now() + ((view[0] ?? 1) - 1) / 1000
  // Spins: the moments that matter are shorter than a timer's grain.
  while (performance.now() < end);
  process.kill(process.pid, 'SIGKILL')
}

if (!isMainThread) waitAndKill(workerData as Order)
