import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DeadGroup, Millrace } from 'millrace'
import { count, pad } from './format.js'
import { shopJobs } from './jobs.js'
import { Ledger } from './ledger.js'
import { seeded } from './random.js'
import { MailServer, PaymentGateway, ScriptedWeather } from './services.js'
import { makeShop, type Shop, startWork } from './shop.js'
import { makeOrder, orderReport, place, sendNewsletter } from './workload.js'

const orders = 500
const atOnce = 20
const newsletter = 250
const reports = 12
const seed = 42

export interface Summary {
  readonly engine: string
  readonly orders: number
  /** Jobs whose enqueue was acknowledged. */
  readonly enqueued: number
  readonly completed: number
  /** Failed attempts that were tried again. */
  readonly retried: number
  readonly dead: number
  readonly cancelled: number
  /** Acknowledged and not to be found in the store. */
  readonly lost: number
  readonly seconds: number
  readonly jobsPerSecond: number
}

/** Works off a fixed day of orders on a fresh private file. Returns the exit code. */
export async function runOnce(json: boolean): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-shop-'))
  const tidy = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', tidy)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  const { summary, causes } = await workOff(join(folder, 'shop.db'))
  console.log(json ? JSON.stringify(summary) : describe(summary, causes))
  return summary.lost === 0 ? 0 : 1
}

async function workOff(file: string): Promise<{ summary: Summary; causes: readonly DeadGroup[] }> {
  const ledger = new Ledger()
  const services = { gateway: new PaymentGateway(new ScriptedWeather()), mail: new MailServer(20) }
  const pace = { firstRetry: '40ms', longestRetry: '400ms', mailTimeout: '500ms', reportStep: 20 }
  const shop = makeShop(`sqlite:${file}`, shopJobs(services, pace, ledger.added))
  const { mill } = shop
  ledger.listen(mill)
  try {
    const started = performance.now()
    await startWork(shop)
    const hideProgress = showProgress(mill)
    await enqueueAll(shop, ledger)
    // A payment adds the receipt with its own outcome, so no mail is missing once the payments are through.
    const queues = ['payments', 'images', 'reports', 'mail'].map((name) => mill.queue(name))
    for (const queue of queues) await queue.drain({ later: true })
    hideProgress()
    const seconds = (performance.now() - started) / 1000
    return { summary: await sumUp(mill, ledger, seconds), causes: await mill.dead.groups() }
  } finally {
    await mill.close({ grace: 0 })
  }
}

async function sumUp(mill: Millrace, ledger: Ledger, seconds: number): Promise<Summary> {
  const { enqueued, lost, states } = await ledger.audit(mill)
  const { totals } = await mill.stats()
  return {
    engine: 'sqlite',
    orders,
    enqueued,
    completed: states.completed ?? 0,
    retried: totals.retried,
    dead: states.dead ?? 0,
    cancelled: states.cancelled ?? 0,
    lost,
    seconds: Number(seconds.toFixed(2)),
    jobsPerSecond: Math.round(enqueued / seconds),
  }
}

async function enqueueAll({ mill, jobs }: Shop, ledger: Ledger): Promise<void> {
  const random = seeded(seed)
  const mails = await sendNewsletter(mill, jobs, newsletter, random)
  ledger.acknowledged(mails.map((job) => job.id))
  for (let number = 1; number <= reports; number++) {
    ledger.acknowledged([(await orderReport(mill, jobs, String(number), 10 + number)).id])
  }
  for (let number = 1; number <= orders; number += atOnce) {
    const batch = Array.from({ length: atOnce }, (_, i) => makeOrder(String(number + i), random))
    const placed = await Promise.all(batch.map((order) => place(mill, jobs, order, '2s')))
    ledger.acknowledged(placed.flat().map((job) => job.id))
  }
}

/** One line on stderr that is written over, for people only. */
function showProgress(mill: Millrace): () => void {
  if (!process.stderr.isTTY) return () => {}
  const timer = setInterval(async () => {
    const { totals } = await mill.stats()
    const ended = totals.completed + totals.dead + totals.cancelled
    process.stderr.write(`\r\x1b[K${count(ended)} of ${count(totals.enqueued)} jobs done`)
  }, 200)
  return () => {
    clearInterval(timer)
    process.stderr.write('\r\x1b[K')
  }
}

function describe(summary: Summary, causes: readonly DeadGroup[]): string {
  const { orders, enqueued, engine, seconds, jobsPerSecond } = summary
  const row = (name: keyof Summary, note: string) =>
    `  ${pad(name, 10)} ${pad(count(Number(summary[name])), -7)}  ${note}`
  return [
    `${count(orders)} orders became ${count(enqueued)} jobs on ${engine}, done in ${seconds} s (${count(jobsPerSecond)} a second)`,
    '',
    row('completed', ''),
    row('retried', 'failed attempts that were tried again'),
    row('dead', 'kept for a look, grouped by cause below'),
    row('cancelled', 'customers who wanted no mail'),
    row('lost', 'acknowledged by enqueue and not found afterwards'),
    '',
    ...causes.map(({ count: n, name, message }) => `  ${pad(count(n), -4)} x ${pad(name, 15)} ${message}`),
  ]
    .map((line) => line.trimEnd())
    .join('\n')
}
