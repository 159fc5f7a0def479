import type { Signal } from '../../core/store.js'
import type { WakeUps } from '../../databases/postgres/wake-ups.js'
import type { Subscribers } from '../page/subscribers.js'
import type { Exchanger } from './exchange.js'

/** Tells this process what has happened, and others what they cannot see by themselves. */
export class News {
  readonly #subscribers: Subscribers
  readonly #wakeUps: WakeUps
  readonly #exchanger: Exchanger

  constructor(subscribers: Subscribers, wakeUps: WakeUps, exchanger: Exchanger) {
    this.#subscribers = subscribers
    this.#wakeUps = wakeUps
    this.#exchanger = exchanger
  }

  /** `isTold`: others have heard of it. */
  tell(signal: Signal, isTold = false): void {
    this.#subscribers.tell(signal)
    if (signal.type === 'ready') {
      this.#exchanger.ready(signal.queues)
      if (!isTold) this.#wakeUps.ready(signal.queues)
    } else if (signal.type === 'changed' || signal.type === 'cancel' || signal.type === 'due')
      this.#wakeUps.changed()
  }
}

/** What there is to tell of new jobs. */
export function signalsOf({
  ready,
  soonest,
}: {
  readonly ready: ReadonlySet<string>
  readonly soonest: number | undefined
}): Signal[] {
  const signals: Signal[] = []
  if (ready.size > 0) signals.push({ type: 'ready', queues: ready })
  if (soonest !== undefined) signals.push({ type: 'due', delay: soonest })
  return signals
}
