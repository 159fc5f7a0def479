import { performance } from 'node:perf_hooks'
import type { Clock } from '../core/clock.js'

/** Node fires timers beyond 2^31-1 ms at once, so long ones are slept in parts. */
const longest = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, fn) {
    let timer: NodeJS.Timeout
    const sleep = (left: number) => {
      timer = left > longest ? setTimeout(() => sleep(left - longest), longest) : setTimeout(fn, left)
    }
    sleep(Math.max(0, ms))
    return () => clearTimeout(timer)
  },
}
