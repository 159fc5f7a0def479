import { setTimeout as sleep } from 'node:timers/promises'

/** Asks again and again until there is an answer; one that throws has none yet. */
export async function until<T>(what: string, ms: number, look: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + ms
  for (let problem: unknown; ; await sleep(20)) {
    try {
      const answer = await look()
      if (answer !== undefined) return answer
    } catch (error) {
      problem = error
    }
    if (Date.now() > deadline) throw new Error(`${what}: not after ${ms / 1000} s`, { cause: problem })
  }
}
