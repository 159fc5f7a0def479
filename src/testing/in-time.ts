import type { Store } from '../core/store.js'
import type { VirtualClock } from './virtual-clock.js'

/** The same store, or transaction of one; the clock waits for its answers. */
export function inTime<T extends object>(target: T, clock: VirtualClock): T {
  return new Proxy(target, {
    get: (_, key) => {
      const value = Reflect.get(target, key, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const answer = value.apply(target, args)
        if (!(answer instanceof Promise)) return answer
        clock.waitFor(answer)
        return key === ('begin' satisfies keyof Store) ? answer.then((begun) => inTime(begun, clock)) : answer
      }
    },
  })
}
