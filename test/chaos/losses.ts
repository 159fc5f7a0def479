/** What a server lost of what it had acknowledged, by the crash that took it. */
import type { FinalJob, Period } from './checker.js'
import type { HistoryEvent } from './journal.js'
import { medianOf } from './row.js'

/** `at` is when the server died; answers that it had sent were read until `to`, and nothing new was. */
export interface Crash extends Period {
  readonly at: number
}

/** How long before its crash each lost job had been acknowledged, in milliseconds, for each crash. */
export type Ages = readonly number[]

interface History {
  readonly events: readonly HistoryEvent[]
  readonly jobs: readonly Pick<FinalJob, 'id'>[]
}

/** A job that is gone went in the first crash after its acknowledgement. */
export function lossesOf({ events, jobs }: History, crashes: readonly Crash[]): Ages[] {
  const found = new Set(jobs.map(({ id }) => id))
  const acked = new Map<string, number>()
  for (const event of events)
    if (event.e === 'enqueue-ack' && !acked.has(event.id)) acked.set(event.id, event.t)
  const ages: number[][] = crashes.map(() => [])
  for (const [id, t] of acked) {
    const i = crashes.findIndex(({ to }) => t <= to)
    const crash = crashes[i]
    if (!found.has(id) && crash !== undefined) ages[i]?.push(Math.max(0, crash.at - t))
  }
  return ages
}

export function describeLosses(losses: readonly Ages[]): string {
  const counts = losses.map(({ length }) => length)
  const oldest = Math.max(0, ...losses.flat())
  const least = Math.min(...counts)
  const most = Math.max(...counts)
  return most === 0
    ? 'lost per kill 0'
    : `lost per kill ${least}/${medianOf(counts)}/${most} (least/median/most), the oldest acknowledged ${oldest} ms before its kill`
}
