/** A process with one worker of projections. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { EventStore } from 'millrace/events'
import { hireAssassin } from '../assassin.js'
import { beChild, tellReady } from '../child.js'
import { openStore } from '../engine.js'
import { type Armed, Doom } from '../fail-points.js'
import { Journal } from '../journal.js'
import { Random } from '../random.js'
import type { EventsChildConfig } from './child.js'
import { allEvents, type ModelName, modelProjection, orderReaction } from './definitions.js'
import type { EventsFailPoint } from './fail-points.js'
import type { EventsEvent } from './history.js'
import { openBook } from './open-book.js'
import { Recorder } from './recording-log.js'
import { eventsSettings } from './settings.js'

export interface ProjectorConfig extends EventsChildConfig {
  readonly models: readonly ModelName[]
  readonly reacts: boolean
  readonly armed?: Armed<EventsFailPoint>
  /** It tells what it has seen, under its name. */
  readonly tells?: boolean
  readonly batch?: number
  /** Parts at a time. */
  readonly concurrency?: number
  readonly leaseMs?: number
}

const config = beChild<ProjectorConfig>()
const { name, place, armed } = config
const random = new Random(config.seed)
const journal = new Journal<EventsEvent>(config.journals, name)
const doom = new Doom<EventsFailPoint>(armed, random, journal)
doom.worker = name
const kill = armed === undefined ? () => {} : await hireAssassin()
const book = openBook(place.book)
const recorder = new Recorder(journal, { doom, kill, random }, config.tells ? name : undefined)
const mill = new Millrace({ store: openStore(place.jobs) })
const store = new EventStore({
  log: recorder.over(book.log()),
  events: allEvents,
  projections: [
    ...config.models.map((model) => modelProjection(model, book.models, recorder)),
    ...(config.reacts ? [orderReaction(mill, recorder)] : []),
  ],
})
store.on('error', ({ error, during }) => {
  const code = isMillraceError(error) ? error.code : 'UNKNOWN'
  journal.write({ e: 'error', code, during, message: String((error as Error).stack ?? error) })
})
await Promise.all([store.open(), ...(config.reacts ? [mill.open()] : [])])
const worker = store.worker({
  lease: config.leaseMs ?? eventsSettings.leaseMs,
  poll: eventsSettings.pollMs,
  concurrency: config.concurrency ?? 8,
  batch: config.batch ?? eventsSettings.batch,
  grace: eventsSettings.graceMs,
  tidy: false,
})
await worker.start()
tellReady(name)
await worker.stopped
await Promise.all([store.close(), mill.close(), book.close()])
process.exit()
