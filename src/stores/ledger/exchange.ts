import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import { claim, opensAt } from './claim.js'
import { settle } from './settle.js'
import type { Tables } from './tables.js'

/** Settles what ended, then claims what is next. */
export function exchange(tables: Tables, request: ExchangeRequest, now: number): ExchangeResult {
  const settled = settle(tables, request, now)
  if (request.claim === undefined) return { settled, claimed: [], opens: undefined }
  const { jobs, more } = claim(tables, request.worker, request.claim, now)
  const opens = more ? now : opensAt(tables, request.claim, now)
  if (jobs.length > 0) tables.signals.claimed(jobs)
  return { settled, claimed: jobs, opens: opens === undefined ? undefined : Math.max(0, opens - now) }
}
