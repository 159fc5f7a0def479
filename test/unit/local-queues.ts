import { isMillraceError } from 'millrace'
import { LocalQueue, type LocalQueueOptions } from 'millrace/local'

/** A queue whose runs end when the test says so. */
export function manual(options: Partial<LocalQueueOptions<string, string>> = {}) {
  const started: string[] = []
  const signals = new Map<string, AbortSignal>()
  const ends = new Map<string, { resolve: (value: string) => void; reject: (error: unknown) => void }>()
  const events: string[] = []
  const queue = new LocalQueue<string, string>({
    ...options,
    run: (item, { signal }) =>
      new Promise((resolve, reject) => {
        started.push(item)
        signals.set(item, signal)
        ends.set(item, { resolve, reject })
      }),
  })
  for (const name of ['full', 'ready', 'idle'] as const) queue.on(name, () => events.push(name))
  const end = async (...items: string[]) => {
    for (const item of items) ends.get(item)?.resolve(`${item}!`)
    await turn()
  }
  return { queue, started, signals, ends, events, end }
}

/** All promises that can go on have gone on. */
export const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

export const codeOf = (promise: Promise<unknown> | undefined) =>
  promise?.then(
    () => 'ok',
    (error) => (isMillraceError(error) ? error.code : error),
  )
