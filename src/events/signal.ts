import { invalid } from '../core/options.js'

/** Of any realm. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  if (typeof signal?.addEventListener !== 'function' || typeof signal.aborted !== 'boolean')
    throw invalid('signal', signal, 'an AbortSignal')
}
