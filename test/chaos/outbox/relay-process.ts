/** A process with one relay. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { Outbox } from 'millrace/outbox'
import { hireAssassin } from '../assassin.js'
import { beChild, tellReady } from '../child.js'
import { openStore } from '../engine.js'
import { type Armed, Doom } from '../fail-points.js'
import { Journal } from '../journal.js'
import { Random } from '../random.js'
import type { OutboxChildConfig } from './child.js'
import type { OutboxFailPoint } from './fail-points.js'
import type { OutboxEvent } from './history.js'
import { openBusiness } from './open-business.js'
import { RecordingOutbox } from './recording-outbox.js'
import { outboxSettings } from './settings.js'
import { FilePublisher, recordingTarget } from './targets.js'

export interface RelayConfig extends OutboxChildConfig {
  readonly source: 'poll' | 'replication'
  readonly armed?: Armed<OutboxFailPoint>
  /** Between two messages. */
  readonly slowMs?: number
  readonly timeoutMs?: number
  readonly isDeaf?: boolean
}

const config = beChild<RelayConfig>()
const { name, place, armed } = config
const random = new Random(config.seed)
const journal = new Journal<OutboxEvent>(config.journals, name)
const doom = new Doom<OutboxFailPoint>(armed, random, journal)
doom.worker = name
const kill = armed === undefined ? () => {} : await hireAssassin()
const around = {
  name,
  file: place.delivered,
  journal,
  doom,
  slowMs: config.slowMs ?? 0,
  isDeaf: config.isDeaf ?? false,
}
const store = new RecordingOutbox(openBusiness(place.business).store(), journal, { doom, kill, random })
const outbox = new Outbox({ store })
const mill = new Millrace({ store: openStore(place.target) })
const relay = outbox.relay({
  to: recordingTarget(mill, around),
  publisher: new FilePublisher(around),
  source: config.source,
  batch: outboxSettings.batch,
  poll: outboxSettings.pollMs,
  timeout: config.timeoutMs ?? outboxSettings.timeoutMs,
  attempts: outboxSettings.attempts,
  backoff: outboxSettings.backoff,
  grace: outboxSettings.graceMs,
})
relay.on('error', ({ error, during }) => {
  const code = isMillraceError(error) ? error.code : 'UNKNOWN'
  journal.write({ e: 'error', code, during, message: String((error as Error).stack ?? error) })
})
relay.on('following', ({ kind, on }) => journal.write({ e: 'following', kind, on }))
await relay.start()
tellReady(name)
