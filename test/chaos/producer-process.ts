/** A process that enqueues as fast as it can until it is told to stop. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { beChild, type ChildConfig, tellReady } from './child.js'
import { openStore } from './engine.js'
import { work } from './jobs.js'
import { Journal } from './journal.js'
import { Random } from './random.js'
import { RecordingStore } from './recording-store.js'
import { settings } from './settings.js'

export interface ProducerConfig extends ChildConfig {
  /** Jobs in all; then the process ends by itself. */
  readonly jobs: number
  readonly ballastBytes?: number
  /** Between two batches. */
  readonly pauseMs?: number
  /** Adds large flows instead, one after the other. */
  readonly flows?: boolean
}

const config = beChild<ProducerConfig>()
const random = new Random(config.seed)
const journal = new Journal(config.journals, config.name)
const mill = new Millrace({ store: new RecordingStore(openStore(config.place), journal) })
await mill.open()
tellReady('')
process.once('SIGTERM', () => process.exit())

let count = 0
for (let sent = 0; sent < config.jobs; ) {
  if (config.flows === true) {
    await addFlow()
    continue
  }
  const size = random.integer(1, 20)
  sent += size
  await (random.chance(0.5) ? enqueueOneByOne(size) : enqueueTogether(size))
  await new Promise((resolve) => setTimeout(resolve, config.pauseMs ?? 0))
}
await mill.close()
process.exit()

/** Calls of one turn share an insert, and each has its own answer. */
async function enqueueOneByOne(size: number): Promise<void> {
  await Promise.all(
    Array.from({ length: size }, async () => {
      const id = `${config.name}:${count++}`
      try {
        await mill.enqueue(work, input(), { id })
        journal.write({ e: 'enqueue-ack', id })
      } catch (error) {
        journal.write({ e: 'enqueue-refused', id, code: isMillraceError(error) ? error.code : String(error) })
      }
    }),
  )
}

/** More than two writes; one of the children has children of its own, which come in two of them. */
async function addFlow(): Promise<void> {
  const id = `${config.name}-${count++}-flow`
  const part = { job: work, input: {}, options: { maxCrashes: 1_000, retain: '1h' } } as const
  const inner = { ...part, children: Array.from({ length: settings.flowParts / 2 }, () => part) }
  const rest = Array.from({ length: settings.flowParts / 2 - 1 }, () => part)
  try {
    await mill.flow({ ...part, children: [inner, ...rest] }, { id, patience: settings.flowPatienceMs })
    const parts = Array.from(
      { length: settings.flowParts },
      (_, i) => `${id}.${String(i + 1).padStart(7, '0')}`,
    )
    journal.write(...[id, ...parts].map((part) => ({ e: 'enqueue-ack' as const, id: part })))
  } catch (error) {
    const code = isMillraceError(error) ? error.code : String(error)
    journal.write({ e: 'error', code, during: 'flow', message: String(error) })
  }
}

async function enqueueTogether(size: number): Promise<void> {
  try {
    const handles = await mill.enqueueMany(work, Array.from({ length: size }, input))
    journal.write(...handles.map(({ id }) => ({ e: 'enqueue-ack' as const, id })))
  } catch (error) {
    const code = isMillraceError(error) ? error.code : String(error)
    journal.write({ e: 'error', code, during: 'enqueueMany', message: String(error) })
  }
}

function input() {
  return config.ballastBytes === undefined ? {} : { ballast: 'x'.repeat(config.ballastBytes) }
}
