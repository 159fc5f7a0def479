import { setTimeout as sleep } from 'node:timers/promises'
import { luck } from './random.js'

/** The outside world of the shop: simulated, with the troubles that real services have. */
export interface Services {
  readonly gateway: PaymentGateway
  readonly mail: MailServer
}

export class GatewayDown extends Error {
  override readonly name = 'GatewayDown'
}

export class CardDeclined extends Error {
  override readonly name = 'CardDeclined'
}

export class TooManyRequests extends Error {
  override readonly name = 'TooManyRequests'
  constructor(readonly retryAfterMs: number) {
    super('payment gateway answers 429 Too Many Requests')
  }
}

/** When the gateway does not work. Live it follows the clock; `--once` has a script, to come out the same each time. */
export interface Weather {
  isDown(order: string, attempt: number): boolean
  /** Milliseconds to stay away, when there are too many requests. */
  isBusy(order: string, attempt: number): number | undefined
}

export class PaymentGateway {
  readonly #weather: Weather

  constructor(weather: Weather) {
    this.#weather = weather
  }

  /** Takes the money for an order. `attempt` only feeds the simulation. */
  async charge(order: string, cents: number, attempt: number, signal: AbortSignal): Promise<string> {
    await sleep(10 + 50 * luck('latency', order, attempt), undefined, { signal })
    if (this.#weather.isDown(order, attempt)) throw new GatewayDown('payment gateway answers 503')
    const retryAfter = this.#weather.isBusy(order, attempt)
    if (retryAfter !== undefined) throw new TooManyRequests(retryAfter)
    const fate = luck('card', order)
    if (fate < 0.02) throw new CardDeclined('card declined: insufficient funds')
    if (fate < 0.03) throw new CardDeclined('card declined: card has expired')
    return `ch_${order}_${cents}`
  }
}

export class MailServer {
  readonly #slowest: number

  /** `slowest`: milliseconds that a mail takes at most. */
  constructor(slowest: number) {
    this.#slowest = slowest
  }

  async send(to: string, template: string, attempt: number, signal: AbortSignal): Promise<string> {
    const fate = luck('mail', to, template, attempt)
    if (fate < 0.004) await sleep(60_000, undefined, { signal }) // it accepts the connection and says no more
    await sleep(this.#slowest * fate, undefined, { signal })
    if (luck('mailbox', to) < 0.006) throw new Error('mail server: 452 mailbox is full')
    if (fate > 0.94) throw new Error('mail server: connection reset')
    return `<${template}.${Math.floor(fate * 1e9)}@shop.example>`
  }
}

/** Down for some seconds out of every minute, and strict about its rate, which shows when all come back at once. */
export class LiveWeather implements Weather {
  readonly #limit: number
  #second = 0
  #calls = 0

  constructor(ordersPerSecond: number) {
    this.#limit = Math.max(10, Math.ceil(ordersPerSecond * 2))
  }

  /** Seconds until the gateway works again; 0 when it does. */
  get downFor(): number {
    const second = (Date.now() / 1000) % 45
    return second >= 30 && second < 37 ? 37 - second : 0
  }

  isDown(): boolean {
    return this.downFor > 0
  }

  isBusy(): number | undefined {
    const second = Math.floor(Date.now() / 1000)
    this.#calls = second === this.#second ? this.#calls + 1 : 1
    this.#second = second
    return this.#calls > this.#limit ? 1000 + Math.random() * 1000 : undefined
  }
}

/** Two outages that a few retries survive, and a busy moment now and then. */
export class ScriptedWeather implements Weather {
  isDown(order: string, attempt: number): boolean {
    const number = Number(order)
    const outage = (number > 100 && number <= 140) || (number > 300 && number <= 340)
    return outage && attempt <= 2
  }

  isBusy(order: string, attempt: number): number | undefined {
    return luck('busy', order, attempt) < 0.05 ? 100 : undefined
  }
}
