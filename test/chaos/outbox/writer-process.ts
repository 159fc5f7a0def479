/** A process that takes orders until it is told to stop. Its configuration is the first argument. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMillraceError } from 'millrace'
import { Outbox } from 'millrace/outbox'
import { hireAssassin } from '../assassin.js'
import { beChild, tellReady } from '../child.js'
import { type Armed, Doom } from '../fail-points.js'
import { Journal } from '../journal.js'
import { Random } from '../random.js'
import type { BusinessTransaction } from './business.js'
import type { OutboxChildConfig } from './child.js'
import type { OutboxFailPoint } from './fail-points.js'
import type { OutboxEvent } from './history.js'
import { fulfil } from './job.js'
import { openBusiness } from './open-business.js'
import { newOrderId, type Poison, pickKey } from './orders.js'
import { outboxSettings } from './settings.js'

export interface WriterConfig extends OutboxChildConfig {
  readonly armed?: Armed<OutboxFailPoint>
  /** The chance of an order to have a job or a message that is always refused. */
  readonly poison: number
  /** Between two transactions, on average. */
  readonly pauseMs: number
}

const config = beChild<WriterConfig>()
const random = new Random(config.seed)
const journal = new Journal<OutboxEvent>(config.journals, config.name)
const doom = new Doom<OutboxFailPoint>(config.armed, random, journal)
doom.worker = config.name
const kill = config.armed === undefined ? () => {} : await hireAssassin()
const business = openBusiness(config.place.business)
const outbox = new Outbox({ store: business.store() })
await outbox.open()
tellReady(config.name)
let stopping = false
process.once('SIGTERM', () => {
  stopping = true
})

/** A commit takes so long, more or less. */
const commitMs = 2

for (let n = 0; !stopping; n++) {
  try {
    await takeOrders()
    if (n % 10 === 0) await roomForMore()
  } catch (error) {
    const code = isMillraceError(error) ? error.code : 'UNKNOWN'
    journal.write({ e: 'error', code, during: 'writer', message: String(error) })
    await sleep(50)
  }
  await sleep(random.between(0, 2 * config.pauseMs))
}
process.exit()

/** One transaction. When it throws, nobody knows what became of it. */
async function takeOrders(): Promise<void> {
  const orders = Array.from({ length: random.integer(1, 3) }, newOrder).sort(byKey)
  const ids = orders.map(({ id }) => id)
  journal.write({ e: 'tried', ids })
  const transaction = await business.begin()
  try {
    for (const order of orders)
      await (order.isUndone ? transaction.undone(() => take(transaction, order)) : take(transaction, order))
    doom.at('written')
    if (random.chance(0.1)) {
      await transaction.rollback()
      journal.write({ e: 'undone', ids })
      return
    }
    await commit(transaction)
  } catch (error) {
    await transaction.rollback().catch(() => {}) // the connection ends with it
    throw error
  }
  const undone = orders.filter(({ isUndone }) => isUndone).map(({ id }) => id)
  journal.write({ e: 'committed', ids: ids.filter((id) => !undone.includes(id)) })
  if (undone.length > 0) journal.write({ e: 'undone', ids: undone })
  doom.at('committed')
}

async function take(transaction: BusinessTransaction, { id, key }: ReturnType<typeof newOrder>) {
  const { tx } = transaction
  const { n } = await transaction.order(id, key)
  const errand = { order: id, key, n }
  await outbox.enqueue(tx, fulfil, errand, { id, ...(key !== undefined && { order: key }) })
  await outbox.publish(tx, 'orders', errand, { id, ...(key !== undefined && { key }) })
}

async function commit(transaction: BusinessTransaction): Promise<void> {
  if (doom.strikes('commit-sent')) {
    doom.announce('commit-sent')
    kill(random.between(0, commitMs))
  }
  await transaction.commit()
}

function newOrder() {
  const poison: Poison = random.chance(config.poison) ? random.pick(['job', 'message']) : 'none'
  return { id: newOrderId(poison), key: pickKey(random), isUndone: random.chance(0.05) }
}

/** All transactions wait for the numbers of keys in one order, so that none waits for another in a circle. */
function byKey(a: { key: string | undefined }, b: { key: string | undefined }): number {
  return (a.key ?? '') < (b.key ?? '') ? -1 : 1
}

async function roomForMore(): Promise<void> {
  while (!stopping) {
    const { waiting } = await outbox.stats()
    if (waiting.job + waiting.message < outboxSettings.level) return
    await sleep(50)
  }
}
