import { MillraceError } from '../core/errors.js'
import { name as checkName } from '../core/options.js'
import { compileRate, type RateOptions } from '../core/traffic/options.js'
import type { Rate } from '../core/traffic/rate.js'
import { effective } from '../core/traffic/settings.js'
import type { Declarations } from './declare.js'
import { Limiter } from './limiter.js'
import type { Runtime } from './runtime.js'

/**
 * The limiters of one Millrace, one object for each name. A rate that the code gives is told the store when it is
 * open, before any worker starts; one that comes later, at once.
 */
export class Limiters {
  readonly #runtime: Runtime
  readonly #declarations: Declarations
  readonly #known = new Map<string, Limiter>()
  readonly #rates = new Map<string, Rate>()
  readonly #untold = new Map<string, Rate>()
  #telling: Promise<void> = Promise.resolve()

  constructor(runtime: Runtime, declarations: Declarations) {
    this.#runtime = runtime
    this.#declarations = declarations
  }

  of(name: string, rate?: RateOptions): Limiter {
    const limiter = this.#known.get(name) ?? new Limiter(this.#runtime, name)
    const isNew = rate !== undefined && this.give(name, rate, 'limiter')
    this.#known.set(name, limiter)
    if (isNew && this.#runtime.isReady()) this.#tellNow()
    return limiter
  }

  /** Keeps a rate to declare; false when it is the one that was given before. */
  give(name: string, raw: RateOptions, field: string): boolean {
    const rate = compileRate(raw, field)
    const old = this.#rates.get(checkName(name, field))
    if (old?.max === rate.max && old.per === rate.per && old.burst === rate.burst) return false
    this.#rates.set(name, rate)
    this.#untold.set(name, rate)
    return true
  }

  /** Whether the store knows all rates. */
  get areDeclared(): boolean {
    return this.#untold.size === 0
  }

  /** One write at a time, so that the rate given last is the one that stays. */
  declare(): Promise<void> {
    this.#telling = this.#telling.catch(() => {}).then(() => this.#tell())
    return this.#telling
  }

  /** Jobs of a definition whose limiter has no rate wait for one: somebody should know. */
  async warnOfMissing(wanted: ReadonlyMap<string, string>): Promise<void> {
    const names = [...new Set(wanted.values())]
    if (names.length === 0) return
    const { gates } = await this.#runtime.store.gates({ of: 'limiter', names, limit: names.length })
    const limited = gates.filter(
      ({ declared, chosen }) => effective(declared, chosen).limit?.rate !== undefined,
    )
    const known = new Set(limited.map(({ ref }) => ref.name))
    for (const [job, limiter] of wanted) {
      if (known.has(limiter)) continue
      this.#runtime.events.emit('error', { error: missing(job, limiter), during: 'open' })
    }
  }

  /** All who wait learn that it is over. */
  close(): void {
    for (const limiter of this.#known.values()) limiter.close()
  }

  /** Nobody awaits this; who acquires next tries again and hears of what is wrong. */
  #tellNow(): void {
    this.declare().catch((error: unknown) => this.#runtime.events.emit('error', { error, during: 'limiter' }))
  }

  async #tell(): Promise<void> {
    const told = [...this.#untold]
    if (told.length === 0) return
    await this.#declarations.declareLimiters(
      told.map(([name, rate]) => ({ name, settings: { limit: { rate } } })),
    )
    for (const [name, rate] of told) if (this.#untold.get(name) === rate) this.#untold.delete(name)
  }
}

function missing(job: string, limiter: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `job '${job}' has limiter '${limiter}', which nobody has given a rate, so its jobs wait; ` +
      `give it one: new Millrace({ limiters: { '${limiter}': { max: 100, per: '1s' } } })`,
    { field: 'limiter', value: limiter },
  )
}
