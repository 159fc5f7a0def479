import type { GuardRecord } from '../../core/guard.js'
import type { ScheduleRecord } from '../../core/schedule.js'
import type { Holder } from '../ledger/dedupe.js'
import type { KeptGuard } from '../ledger/guard.js'
import { type KeptSchedule, keptSchedule } from '../ledger/schedule.js'
import type { Mail } from '../ledger/signal.js'
import type { Codec } from './book.js'

interface Row {
  readonly key: string
  readonly n: number
  readonly state: string
}

export const holderCodec: Codec<Holder> = {
  book: 'holder',
  read(row) {
    const { n, rank, state } = row as unknown as Row & { rank: number }
    return { ...(JSON.parse(state) as Pick<Holder, 'name' | 'key' | 'id' | 'since'>), rank, seq: n }
  },
  write: ({ name, key, id, since, rank, seq }) => ({
    rank,
    n: seq,
    state: JSON.stringify({ name, key, id, since }),
  }),
}

export const guardCodec: Codec<KeptGuard> = {
  book: 'guard',
  read(row) {
    const { key, n, rank, state } = row as unknown as Row & { rank: number | null }
    const record = { ...emptyGuard, ...(JSON.parse(state) as GuardRecord), expiresAt: rank ?? undefined }
    return { record, key, rank: rank ?? 0, seq: n }
  },
  write: ({ record: { expiresAt, ...state }, seq }) => ({
    rank: expiresAt ?? null,
    n: seq,
    state: JSON.stringify(state),
  }),
}

const emptyGuard = { result: undefined, standsUntil: undefined }

export const scheduleCodec: Codec<KeptSchedule> = {
  book: 'schedule',
  read: (row) => keptSchedule(readSchedule((row as unknown as Row).state), (row as unknown as Row).n),
  write: ({ record, look, told }) => ({
    look: look.rank === Number.POSITIVE_INFINITY ? null : look.rank,
    told: record.paused ? null : told.rank,
    n: look.seq,
    state: JSON.stringify(record),
  }),
}

export function readSchedule(text: string): ScheduleRecord {
  return { ...emptySchedule, ...(JSON.parse(text) as ScheduleRecord) }
}

const emptySchedule = { slot: undefined, ahead: undefined, lastSlot: undefined, lastJob: undefined }

export const mailCodec: Codec<Mail> = {
  book: 'mail',
  read(row) {
    const { n, state, expires_at, spreading } = row as unknown as Row & {
      expires_at: number
      spreading: boolean
    }
    const { key, id, payload } = JSON.parse(state) as Pick<Mail, 'key' | 'id' | 'payload'>
    return { n, key, id, payload, expiresAt: expires_at, spreading }
  },
  write: ({ n, key, id, payload, expiresAt, spreading }) => ({
    line: key,
    n,
    expires_at: expiresAt,
    spreading,
    state: JSON.stringify({ key, id, payload }),
  }),
}
