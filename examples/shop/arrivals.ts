import type { Shop } from './shop.js'
import { makeOrder, orderReport, place, sendNewsletter } from './workload.js'

const everyMs = 100
const reportEveryMs = 2_000
const newsletterEveryMs = 20_000

/** Customers: orders that arrive at random, about `rate` a second, a report now and then, a newsletter at times. */
export class Arrivals {
  readonly #shop: Shop
  readonly #rate: number
  readonly #trouble: (error: unknown) => void
  readonly #underWay = new Set<Promise<unknown>>()
  #timer: NodeJS.Timeout | undefined
  #elapsed = 0

  constructor(shop: Shop, rate: number, trouble: (error: unknown) => void) {
    this.#shop = shop
    this.#rate = rate
    this.#trouble = trouble
  }

  start(): void {
    this.#timer = setInterval(() => this.#arrive(), everyMs)
  }

  /** Resolves when every order that arrived has been stored or refused. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#underWay)
  }

  #arrive(): void {
    const { mill, jobs } = this.#shop
    const expected = (this.#rate * everyMs) / 1000
    for (let n = Math.floor(expected * 2 * Math.random() + Math.random()); n > 0; n--) {
      this.#follow(place(mill, jobs, makeOrder(orderId(), Math.random), '30s'))
    }
    if (this.#elapsed % reportEveryMs === 0) {
      this.#follow(orderReport(mill, jobs, orderId(), 20 + Math.floor(40 * Math.random())))
    }
    if (this.#elapsed % newsletterEveryMs === 0)
      this.#follow(sendNewsletter(mill, jobs, this.#rate * 20, Math.random))
    this.#elapsed += everyMs
  }

  #follow(work: Promise<unknown>): void {
    const followed = work.catch(this.#trouble).finally(() => this.#underWay.delete(followed))
    this.#underWay.add(followed)
  }
}

/** Unlike any other order of this shop, in this process or the next. */
function orderId(): string {
  return `${Date.now()}-${Math.floor(1e6 * Math.random())}`
}
