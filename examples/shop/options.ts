import { parseArgs } from 'node:util'

export interface ShopOptions {
  readonly once: boolean
  readonly json: boolean
  readonly help: boolean
  readonly file: string
  /** Orders per second. */
  readonly rate: number
  /** Milliseconds after which the shop closes by itself. */
  readonly duration: number | undefined
}

export const usage = `A small shop's background work on a SQLite file, with millrace.

  npm start                      orders arrive until you press Ctrl-C; started again, it goes on where it was
  npm start -- --once            works off a fixed day of orders on a fresh file and sums up
  npm start -- --once --json     the same, with the summary as one line of JSON

Options
  --file PATH      the database of the shop        (default .shop/shop.db)
  --rate N         orders per second               (default 8)
  --duration TIME  closes by itself: 10s, 5m, 1h   (default: when you press Ctrl-C)
  --help           this text
`

/** Throws an Error with one helpful sentence when the arguments make no sense. */
export function readOptions(args: readonly string[]): ShopOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      once: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      file: { type: 'string', default: '.shop/shop.db' },
      rate: { type: 'string', default: '8' },
      duration: { type: 'string' },
    },
  })
  if (values.json && !values.once) throw new Error('--json goes with --once')
  const { once, json, help, file } = values
  const duration = values.duration === undefined ? undefined : readDuration(values.duration)
  return { once, json, help, file, rate: readRate(values.rate), duration }
}

function readRate(text: string): number {
  const rate = Number(text)
  if (!(rate > 0 && rate <= 1000))
    throw new Error(`--rate is '${text}'; expected orders per second, up to 1000`)
  return rate
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 }

function readDuration(text: string): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)(s|m|h)$/.exec(text) ?? []
  const ms = Number(number) * (unitMs[unit] ?? 0)
  if (!(ms > 0)) throw new Error(`--duration is '${text}'; expected a time such as 10s, 5m or 1h`)
  return ms
}
