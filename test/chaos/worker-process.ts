/** A process with one worker. Its configuration is the first argument. */
import { isMillraceError, Millrace } from 'millrace'
import { hireAssassin } from './assassin.js'
import { beChild, type ChildConfig, tellReady } from './child.js'
import { openStore } from './engine.js'
import { type Armed, Doom } from './fail-points.js'
import { makeJobs } from './jobs.js'
import { Journal } from './journal.js'
import { Random } from './random.js'
import { RecordingStore } from './recording-store.js'
import { settings } from './settings.js'

export interface WorkerConfig extends ChildConfig {
  readonly armed?: Armed
  /** For a while, answers of the store become errors although the work was done. */
  readonly dropReplies?: { readonly chance: number; readonly forMs: number }
  readonly concurrency?: number
  readonly prefetch?: number
  readonly graceMs?: number
  /** How long `slow` jobs take here. */
  readonly slowMs?: number
}

const config = beChild<WorkerConfig>()
const random = new Random(config.seed)
const journal = new Journal(config.journals, config.name)
const doom = new Doom(config.armed, random, journal)
const kill = config.armed?.['mid-commit'] === undefined ? undefined : await hireAssassin()
const dropUntil = Date.now() + (config.dropReplies?.forMs ?? 0)
const store = new RecordingStore(openStore(config.place), journal, {
  doom,
  kill,
  killWithinMs: 6,
  dropReply: () => Date.now() < dropUntil && random.chance(config.dropReplies?.chance ?? 0),
  random,
})
const mill = new Millrace({
  store,
  jobs: makeJobs({ journal, store, doom, slowMs: config.slowMs ?? 10 }),
})
mill.on('error', ({ error, during }) => {
  const code = isMillraceError(error) ? error.code : 'UNKNOWN'
  journal.write({ e: 'error', code, during, message: String((error as Error).stack ?? error) })
})
// A handler in a sandbox, or of a saga, cannot write its start itself.
mill.on('started', ({ id, name }) => {
  const lease = store.leaseOf(id)
  if ((name.startsWith('sandboxed-') || name === 'booking') && lease !== undefined)
    journal.write({ e: 'start', ...lease })
})
mill.on('lost', ({ id, worker }) => journal.write({ e: 'lost', id, worker }))

const worker = mill.worker({
  lease: settings.leaseMs,
  poll: settings.pollMs,
  concurrency: config.concurrency ?? settings.concurrency,
  grace: config.graceMs ?? settings.graceMs,
  ...(config.prefetch !== undefined && { prefetch: config.prefetch }),
  sandbox: { size: 2, warm: 0 },
})
doom.worker = worker.id
// Only where it is needed: with a listener of its own, a process has to end by itself.
if (config.armed?.drain !== undefined) process.once('SIGTERM', dieWhileDraining)
await worker.start()
tellReady(worker.id)

function dieWhileDraining(): void {
  store.draining()
  if (doom.strikes('drain')) setTimeout(() => doom.die('drain'), random.between(0, 40))
  void worker.stop().then(() => process.exit())
}
