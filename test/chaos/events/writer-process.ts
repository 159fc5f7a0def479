/** A process that appends until it is told to stop, over several connections. Its configuration is the first argument. */
import { EventStore } from 'millrace/events'
import { hireAssassin } from '../assassin.js'
import { beChild, tellReady } from '../child.js'
import { type Armed, Doom } from '../fail-points.js'
import { Journal } from '../journal.js'
import { Random } from '../random.js'
import type { EventsChildConfig } from './child.js'
import { allEvents } from './definitions.js'
import type { EventsFailPoint } from './fail-points.js'
import type { EventsEvent } from './history.js'
import { openBook } from './open-book.js'
import { type Pace, Writer } from './writer.js'

export interface WriterConfig extends EventsChildConfig, Pace {
  readonly armed?: Armed<EventsFailPoint>
  readonly connections: number
}

const config = beChild<WriterConfig>()
const { name } = config
const random = new Random(config.seed)
const journal = new Journal<EventsEvent>(config.journals, name)
const doom = new Doom<EventsFailPoint>(config.armed, random, journal)
doom.worker = name
const kill = config.armed === undefined ? () => {} : await hireAssassin()
const book = openBook(config.place.book)
const store = new EventStore({ log: book.log(), events: allEvents })
await store.open()
tellReady(name)
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const around = { store, book, journal, sabotage: { doom, kill, random }, pace: config, stop: stop.signal }
const writers = Array.from({ length: config.connections }, (_, i) => new Writer(`${name}.${i}`, around))
await Promise.all(writers.map((writer) => writer.run()))
await Promise.all([store.close(), book.close()])
process.exit()
