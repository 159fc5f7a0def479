import type { Stats } from 'millrace'
import { clock, count, palette } from './format.js'
import { Meter, Samples } from './meter.js'
import { Screen } from './screen.js'
import type { LiveWeather } from './services.js'
import type { Shop } from './shop.js'
import { draw, type Notice } from './view.js'

const frameMs = 250
const secondMs = 1000
const newsMs = 12_000

/** What people see of the live shop: a view on a terminal, one line a second anywhere else. */
export class Front {
  readonly #shop: Shop
  readonly #weather: LiveWeather
  readonly #about: { readonly file: string; readonly rate: number }
  readonly #meter: Meter
  readonly #screen = process.stdout.isTTY && process.env.TERM !== 'dumb' ? new Screen() : undefined
  readonly #paint = palette(!process.env.NO_COLOR)
  readonly #openedAt = performance.now()
  #news: { readonly text: string; readonly urgent: boolean; readonly until: number } | undefined
  #lastSecond = 0
  #timer: NodeJS.Timeout | undefined
  #drawing: Promise<void> | undefined
  #draining = false

  constructor(shop: Shop, weather: LiveWeather, about: { readonly file: string; readonly rate: number }) {
    this.#shop = shop
    this.#weather = weather
    this.#about = about
    this.#meter = new Meter(shop.mill)
    shop.mill.on('error', ({ error }) => this.trouble(error))
  }

  async open(): Promise<void> {
    const stats = await this.#shop.mill.stats()
    const left = waiting(stats)
    const found = left === 0 ? 'nothing is waiting' : `goes on where it was: ${count(left)} jobs are waiting`
    this.#tell(`${this.#about.file}: ${found}`, false)
    this.#meter.tick(stats, 0)
    this.#screen?.open()
    this.#timer = setInterval(() => {
      this.#drawing ??= this.#frame().finally(() => {
        this.#drawing = undefined
      })
    }, frameMs)
  }

  /** Answers the Ctrl-C at once, however soon the rest is done. */
  async drain(): Promise<void> {
    await this.#drawing
    this.#draining = true
    await this.#frame(true)
  }

  /** Something did not work that is not the matter of one job. */
  trouble(error: unknown): void {
    this.#tell(error instanceof Error ? error.message : String(error), true)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#drawing
    this.#screen?.close()
    const stats = await this.#shop.mill.stats()
    const { completed, dead } = stats.totals
    console.log(
      `closed: ${stats.states.running} running, ${count(waiting(stats))} jobs wait for the next start`,
    )
    console.log(
      `${this.#about.file}: ${count(completed)} completed and ${count(dead)} dead since it was made`,
    )
  }

  #tell(text: string, urgent: boolean): void {
    this.#news = { text, urgent, until: performance.now() + newsMs }
    if (this.#screen === undefined) console.log(text)
  }

  async #frame(now = false): Promise<void> {
    try {
      const stats = await this.#shop.mill.stats()
      const elapsed = performance.now() - this.#openedAt - this.#lastSecond
      const second = elapsed >= secondMs
      if (second) {
        this.#meter.tick(stats, elapsed)
        this.#lastSecond += elapsed
      }
      if (this.#screen !== undefined) this.#draw(this.#screen, stats)
      else if (second || now) console.log(this.#statusLine(stats))
    } catch (error) {
      this.trouble(error)
    }
  }

  #draw(screen: Screen, stats: Stats): void {
    const { waits, runs, rate, perSecond, reports, failures } = this.#meter
    const none = new Samples().times
    const kinds = Object.values(this.#shop.jobs).map((job) => job.name)
    const times = kinds.map(
      (kind) => [kind, { wait: waits.get(kind)?.times ?? none, run: runs.get(kind)?.times ?? none }] as const,
    )
    const { columns, rows } = screen.size
    const picture = {
      file: this.#about.file,
      ordersPerSecond: this.#about.rate,
      upMs: performance.now() - this.#openedAt,
      notice: this.#notice(),
      stats,
      rate,
      perSecond,
      times: new Map(times),
      reports,
      failures,
      now: Date.now(),
    }
    screen.show(draw(picture, columns, rows, this.#paint))
  }

  /** The most pressing thing to say. */
  #notice(): Notice {
    if (this.#draining)
      return {
        text: `draining: ${this.#active} running · Ctrl-C again gives them back at once`,
        urgent: true,
      }
    const news = this.#news !== undefined && performance.now() < this.#news.until ? this.#news : undefined
    if (news?.urgent) return news
    const downFor = Math.ceil(this.#weather.downFor)
    if (downFor > 0)
      return { text: `the payment gateway is down, back in ${downFor} s: payments are retried`, urgent: true }
    return news ?? { text: 'Ctrl-C drains and leaves', urgent: false }
  }

  get #active(): number {
    return this.#shop.workers.reduce((sum, worker) => sum + worker.active, 0)
  }

  #statusLine({ states }: Stats): string {
    const shown = ['pending', 'scheduled', 'retrying', 'running', 'completed', 'dead', 'cancelled'] as const
    const counts = shown.map((state) => `${state} ${states[state]}`).join('  ')
    const end = this.#draining ? `draining: ${this.#active} running` : `${this.#meter.rate.toFixed(1)} jobs/s`
    return `${clock(performance.now() - this.#openedAt)}  ${counts}  ${end}`
  }
}

/** Jobs that still have work ahead of them. */
function waiting({ states }: Stats): number {
  return states.pending + states.scheduled + states.retrying + states.running + states.blocked
}
