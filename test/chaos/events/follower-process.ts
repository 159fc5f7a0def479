/** A process that follows all streams. Its configuration is the first argument. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMillraceError } from 'millrace'
import { EventStore } from 'millrace/events'
import { beChild, tellReady } from '../child.js'
import { Journal } from '../journal.js'
import type { EventsChildConfig } from './child.js'
import { allEvents } from './definitions.js'
import type { EventsEvent, SeenEvent } from './history.js'
import { openBook } from './open-book.js'

const config = beChild<EventsChildConfig>()
const { name: reader } = config
const journal = new Journal<EventsEvent>(config.journals, reader)
const book = openBook(config.place.book)
const store = new EventStore({ log: book.log(), events: allEvents })
await store.open()
tellReady(reader)
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

/** Lines are written so often, or when there are so many of them. */
const tellMs = 50
const most = 500
let events: SeenEvent[] = []
let after = 0
const telling = setInterval(tell, tellMs)
while (!stop.signal.aborted) {
  try {
    await follow()
  } catch (error) {
    const code = isMillraceError(error) ? error.code : 'UNKNOWN'
    journal.write({ e: 'error', code, during: 'follow', message: String(error) })
    await sleep(50)
  }
}
clearInterval(telling)
tell()
journal.close()
await Promise.all([store.close(), book.close()])

async function follow(): Promise<void> {
  for await (const { position, data } of store.follow({ after, signal: stop.signal })) {
    events.push([position, data.key, Date.now()])
    after = position
    if (events.length === most) tell()
  }
}

function tell(): void {
  if (events.length > 0) journal.write({ e: 'seen', reader, events })
  events = []
}
process.exit()
