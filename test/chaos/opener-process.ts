/** Opens a store, adds a few jobs and ends; or is killed on the way. */
import { Millrace } from 'millrace'
import { hireAssassin } from './assassin.js'
import { beChild, type ChildConfig } from './child.js'
import { engines, openStore } from './engine.js'
import { work } from './jobs.js'
import { Journal } from './journal.js'
import { Random } from './random.js'
import { RecordingStore } from './recording-store.js'

const config = beChild<ChildConfig & { readonly armed: boolean }>()
const random = new Random(config.seed)
const journal = new Journal(config.journals, config.name)
const mill = new Millrace({ store: new RecordingStore(openStore(config.place), journal) })
const kill = await hireAssassin()

if (config.armed) kill(random.between(0, engines[config.place.engine].openMs))
await mill.open()
do {
  const handles = await mill.enqueueMany(work, [{}, {}, {}])
  journal.write(...handles.map(({ id }) => ({ e: 'enqueue-ack' as const, id })))
} while (config.armed)
await mill.close()
process.exit()
