import { type Duration, milliseconds } from '../core/duration.js'
import { defaults, jobId, noUnknown } from '../core/options.js'
import type { SignalResult } from '../core/store.js'
import { newId } from '../system/ids.js'
import type { Runtime } from './runtime.js'

export interface SignalOptions {
  /** The caller's own id: a signal that is sent again with its key and id is sent once, while it is kept. */
  readonly id?: string
  /** How long it is kept for jobs that wait for it later. @default '7d' */
  readonly retain?: Duration
}

export interface SentSignal {
  readonly id: string
  /** Jobs that it woke at once. Where very many waited, the others follow. */
  readonly woken: number
}

export async function sendSignal(
  runtime: Runtime,
  key: string,
  payload: unknown,
  options: SignalOptions = {},
): Promise<SentSignal> {
  noUnknown(options, ['id', 'retain'], 'signal')
  const id = options.id === undefined ? newId(runtime.clock.now()) : jobId(options.id)
  const signal = {
    key: jobId(key, 'key'),
    id,
    payload:
      payload === undefined ? undefined : runtime.codec.encode(payload, 'payload', runtime.limits.payload),
    retain: milliseconds(options.retain ?? defaults.retainSignal, 'retain'),
  }
  await runtime.ready()
  const [result] = await runtime.store.signal([signal])
  return { id, woken: (result as SignalResult).woken }
}
