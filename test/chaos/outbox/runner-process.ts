/** A process that runs what arrives in the Millrace. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { beChild, tellReady } from '../child.js'
import { openStore } from '../engine.js'
import { Journal } from '../journal.js'
import type { OutboxChildConfig } from './child.js'
import type { OutboxEvent } from './history.js'
import { fulfilBy } from './job.js'
import { outboxSettings } from './settings.js'

const config = beChild<OutboxChildConfig>()
const journal = new Journal<OutboxEvent>(config.journals, config.name)
const mill = new Millrace({
  store: openStore(config.place.target),
  jobs: [fulfilBy((id) => journal.write({ e: 'effect', id }))],
})
mill.on('error', ({ error, during }) => {
  const code = isMillraceError(error) ? error.code : 'UNKNOWN'
  journal.write({ e: 'error', code, during, message: String((error as Error).stack ?? error) })
})
const worker = mill.worker({
  lease: outboxSettings.leaseMs,
  poll: outboxSettings.pollMs,
  concurrency: 8,
  grace: outboxSettings.graceMs,
})
await worker.start()
tellReady(config.name)
