/** A process that enqueues as fast as it can until it is told to stop. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { beChild, type ChildConfig, tellReady } from './child.js'
import { openStore } from './engine.js'
import { mixedWork } from './faults/load.js'
import { type Work, work } from './jobs.js'
import { Journal, notEnqueued } from './journal.js'
import { Random } from './random.js'
import { RecordingStore } from './recording-store.js'
import { settings } from './settings.js'

export interface ProducerConfig extends ChildConfig {
  /** Jobs in all; then the process ends by itself. */
  readonly jobs: number
  readonly ballastBytes?: number
  /** Between two batches. */
  readonly pauseMs?: number
  /** Waits while more than this many jobs do. */
  readonly level?: number
  /** A bit of everything instead of jobs that only return. */
  readonly mixed?: boolean
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

/** Where servers and workers are killed, jobs have done nothing wrong. */
const maxCrashes = 1_000
let count = 0
for (let sent = 0; sent < config.jobs; ) {
  if (config.flows === true) {
    await addFlow()
    continue
  }
  if (await hasEnough()) continue
  const size = random.integer(1, 20)
  sent += size
  await (random.chance(0.5) ? enqueueOneByOne(size) : enqueueTogether(size))
  await new Promise((resolve) => setTimeout(resolve, config.pauseMs ?? 0))
}
await mill.close()
process.exit()

async function hasEnough(): Promise<boolean> {
  if (config.level === undefined) return false
  const { states } = await mill.stats().catch(() => ({ states: { pending: 0 } }))
  if (states.pending <= config.level) return false
  await new Promise((resolve) => setTimeout(resolve, 50))
  return true
}

/** Calls of one turn share an insert, and each has its own answer. */
async function enqueueOneByOne(size: number): Promise<void> {
  await Promise.all(
    Array.from({ length: size }, async () => {
      const id = `${config.name}:${count++}`
      try {
        await mill.enqueue(work, input(), { id, maxCrashes })
        journal.write({ e: 'enqueue-ack', id })
      } catch (error) {
        journal.write(notEnqueued(id, error))
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
    const handles = await mill.enqueueMany(work, Array.from({ length: size }, input), { maxCrashes })
    journal.write(...handles.map(({ id }) => ({ e: 'enqueue-ack' as const, id })))
  } catch (error) {
    const code = isMillraceError(error) ? error.code : String(error)
    journal.write({ e: 'error', code, during: 'enqueueMany', message: String(error) })
  }
}

function input(): Work {
  if (config.mixed === true) return mixedWork(random)
  return config.ballastBytes === undefined ? {} : { ballast: 'x'.repeat(config.ballastBytes) }
}
