/** How long one shard is waited for that others need not wait for. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Whether it was done within so many ms; otherwise it goes on, and nobody waits for it. */
export function inTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  const done = work.then(
    () => true,
    () => false,
  )
  return Promise.race([done, sleep(ms, false, { ref: false })])
}

/** What each call came to. Once one has been answered, the others have `ms` for it: undefined for those that are late. */
export async function answersOf<T>(
  calls: readonly Promise<T>[],
  ms = Number.POSITIVE_INFINITY,
): Promise<(PromiseSettledResult<T> | undefined)[]> {
  const answers = new Array<PromiseSettledResult<T> | undefined>(calls.length).fill(undefined)
  const noted = calls.map(async (call, i) => {
    ;[answers[i]] = await Promise.allSettled([call])
  })
  const all = Promise.all(noted)
  if (ms === Number.POSITIVE_INFINITY) await all
  else
    await Promise.race([
      all,
      Promise.any(calls).then(
        () => sleep(ms, undefined, { ref: false }),
        () => all,
      ),
    ])
  return [...answers]
}
