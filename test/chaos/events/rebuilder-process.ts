/** A process that rebuilds a read model, once or again and again. Its configuration is the first argument. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMillraceError } from 'millrace'
import { EventStore } from 'millrace/events'
import { hireAssassin } from '../assassin.js'
import { beChild, tellReady } from '../child.js'
import { type Armed, Doom } from '../fail-points.js'
import { Journal } from '../journal.js'
import { Random } from '../random.js'
import type { EventsChildConfig } from './child.js'
import { allEvents, type ModelName, modelProjection } from './definitions.js'
import type { EventsFailPoint } from './fail-points.js'
import type { EventsEvent } from './history.js'
import { openBook } from './open-book.js'
import { Recorder } from './recording-log.js'
import { eventsSettings } from './settings.js'

export interface RebuilderConfig extends EventsChildConfig {
  readonly model: ModelName
  /** It ends by itself then. */
  readonly times?: number
  readonly armed?: Armed<EventsFailPoint>
}

const config = beChild<RebuilderConfig>()
const { name, place, armed, model, times = Number.POSITIVE_INFINITY } = config
const random = new Random(config.seed)
const journal = new Journal<EventsEvent>(config.journals, name)
const doom = new Doom<EventsFailPoint>(armed, random, journal)
doom.worker = name
const kill = armed === undefined ? () => {} : await hireAssassin()
const book = openBook(place.book)
const recorder = new Recorder(journal, { doom, kill, random })
const store = new EventStore({
  log: recorder.over(book.log()),
  events: allEvents,
  projections: [modelProjection(model, book.models, recorder)],
})
const fail = (during: string, error: unknown) => {
  const code = isMillraceError(error) ? error.code : 'UNKNOWN'
  journal.write({ e: 'error', code, during, message: String((error as Error).stack ?? error) })
}
store.on('error', ({ error, during }) => fail(during, error))
await store.open()
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
tellReady(name)
for (let done = 0; done < times && !stop.signal.aborted; ) {
  try {
    const { generation } = await store.rebuild(model, {
      signal: stop.signal,
      keepOld: eventsSettings.keepOldMs,
      lease: eventsSettings.leaseMs,
    })
    journal.write({ e: 'rebuilt', generation })
    done++
    // While the old table is still there, or when it has just gone.
    await sleep(random.between(0, 2 * eventsSettings.keepOldMs))
  } catch (error) {
    if (!stop.signal.aborted) fail('rebuild', error)
    await sleep(50)
  }
}
// The last old table goes while the store is open.
if (!stop.signal.aborted) await sleep(2 * eventsSettings.keepOldMs)
await Promise.all([store.close(), book.close()])
process.exit()
