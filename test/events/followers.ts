/** Accounts with an asynchronous projection that sums them up. */
import {
  defineProjection,
  type EventLog,
  type EventStoreEvents,
  type EventWorker,
  type EventWorkerOptions,
  type Projection,
  type ProjectionContext,
  type ProjectionOptions,
  type RecordedEvent,
} from 'millrace/events'
import { onTestFinished } from 'vitest'
import { type Accounts, type Bank, bank, Deposited, storeOn } from './stores.js'
import { freshName, type Sums, sumsIn } from './tables.js'

type Deposit = RecordedEvent<'deposited', { amount: number }>
type Extra = Partial<
  Pick<
    ProjectionOptions<[typeof Deposited]>,
    'parts' | 'skip' | 'timeout' | 'transactional' | 'from' | 'swapped'
  >
>

export interface Summed extends Bank {
  readonly projection: Projection
  readonly sums: Sums
  /** Of the live generation. */
  read(): Promise<string[] | undefined>
  /** What handlers were called with, as `stream@version`. */
  readonly seen: string[]
  readonly errors: EventStoreEvents['error'][]
  /** Another process, as far as one can tell: a store of its own with the projection. */
  process(on?: Handler): Promise<Accounts>
}

export type Handler = (event: Deposit, context: ProjectionContext) => unknown

export async function summed(
  before: Handler = () => {},
  extra: Extra = {},
  wrap?: Parameters<typeof bank>[0] extends infer O ? (O extends { wrap?: infer W } ? W : never) : never,
): Promise<Summed> {
  const made = await bank()
  const name = freshName('sums')
  const sums = sumsIn(made.log, name)
  const seen: string[] = []
  const errors: EventStoreEvents['error'][] = []
  const define = (on: Handler) =>
    defineProjection({
      name,
      events: [Deposited],
      backoff: { type: 'fixed', initialDelay: '5ms', jitter: 'none' },
      ...extra,
      on: {
        deposited: async (event, context) => {
          seen.push(`${event.stream}@${event.version}`)
          await on(event, context)
          if (extra.transactional !== false)
            await sums.add(context.tx(), context.table, event.stream, event.data.amount)
        },
      },
      create: (context) => sums.create(context),
      drop: (context) => sums.drop(context),
    })
  const open = async (log: EventLog, projection: Projection) => {
    const store = await storeOn(log, { projections: [projection], ...(wrap && { wrap }) })
    store.on('error', (error) => errors.push(error))
    return store
  }
  const projection = define(before)
  const store = await open(made.log, projection)
  return {
    ...made,
    store,
    projection,
    sums,
    seen,
    errors,
    process: async (on = before) => open(await made.anotherLog(), define(on)),
    read: async () => sums.read(await store.table(name)),
  }
}

/** Started, quick, and stopped after the test. */
export async function working(store: Accounts, options: EventWorkerOptions = {}): Promise<EventWorker> {
  const worker = store.worker({ poll: '20ms', handleSignals: false, ...options })
  onTestFinished(() => worker.stop({ grace: 0 }))
  await worker.start()
  return worker
}

/** Until a projection has seen all that is there. */
export async function caughtUp(store: Accounts, projection: { readonly name: string }): Promise<void> {
  const { end } = await store.stats()
  await store.reached(projection.name, end, { timeout: '10s' })
}

/** A promise to resolve by hand. */
export function gate<T = void>() {
  let open!: (value: T) => void
  const passed = new Promise<T>((resolve) => {
    open = resolve
  })
  return { passed, open }
}
