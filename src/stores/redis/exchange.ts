import type { ClaimedJob } from '../../core/job.js'
import type { ClaimRequest, ExchangeRequest, ExchangeResult, SettleResult } from '../../core/store.js'
import { separator } from '../page/separator.js'
import { readBody } from './body.js'
import type { Connection } from './connection.js'
import { argsOf, type Ends, endsOf, isPlainEnd } from './ends.js'
import { scripts } from './scripts.js'
import { idIn, positionDigits } from './ticket.js'
import { tokenEnd } from './token.js'
import { pastIn } from './told.js'

/** What exchange.lua answers. */
type Answer = readonly [
  now: string,
  lost: readonly number[],
  /** Numbers and names. */
  kinds: readonly string[],
  /** A line each. */
  tickets: string,
  /** A list where they are large: a job that is still at hand would keep all of one text in memory. */
  bodies: string | readonly string[],
  /** None if no job has one. */
  stories: readonly string[],
  waits: number,
]

export interface Exchanged {
  readonly result: ExchangeResult
  /** Nothing is left for any of its slots, and whoever adds a job wakes this process. */
  readonly waits: boolean
}

/** Settles and claims plain jobs in one script. */
export class Exchanger {
  readonly #connection: Connection
  readonly #ear: () => string
  readonly #now: () => number | ''

  constructor(connection: Connection, ear: () => string, now: () => number | '') {
    this.#connection = connection
    this.#ear = ear
    this.#now = now
  }

  /** Whether all of it is plain, as far as can be seen from here. */
  takes({ settlements, claim, rescue }: ExchangeRequest, limited: ReadonlySet<string>): boolean {
    if (rescue === true) return false
    if (claim?.picks.some(({ queue }) => limited.has(queue))) return false
    return settlements.every(isPlainEnd)
  }

  /** Undefined when only the desk can: nothing was written. */
  async exchange({ worker, settlements, claim }: ExchangeRequest): Promise<Exchanged | undefined> {
    const ends = endsOf(settlements)
    const asked = claim === undefined ? [] : askedFor(claim)
    const args = [this.#now(), worker, this.#ear(), ends.places.length, ...argsOf(ends), ...asked]
    const answer = (await this.#connection.run(scripts.exchange, args)) as Answer
    if ((answer as readonly unknown[])[0] === 'desk') return undefined
    const settled = settledBy(settlements.length, ends, answer[1])
    const claimed = claim === undefined ? [] : claimedIn(answer, claim.token)
    return { result: { settled, claimed, opens: undefined }, waits: answer[6] === 1 }
  }
}

function askedFor({ token, lease, room, picks }: ClaimRequest): (string | number)[] {
  const args: (string | number)[] = [token, lease, room.shared]
  for (let lane = 0; lane < 4; lane++) args.push(room.own[lane] ?? 0)
  for (const { queue, lane, take } of picks) args.push(queue, lane, take)
  return args
}

/** `lost`: places among the ends, from 1 on. */
function settledBy(count: number, { places }: Ends, lost: readonly number[]): SettleResult[] {
  const settled = new Array<SettleResult>(count).fill('lost')
  for (const place of places) settled[place] = 'applied'
  for (const i of lost) settled[places[i - 1] as number] = 'lost'
  return settled
}

interface KindName {
  readonly queue: string
  readonly name: string
  readonly lane: number
  /** Of its jobs' tokens. */
  readonly tokenEnd: string
}

function claimedIn([now, , kinds, tickets, bodies, stories]: Answer, claim: string): ClaimedJob[] {
  if (tickets === '') return []
  const names = new Map<number, KindName>()
  for (let i = 0; i < kinds.length; i += 2) {
    const [lane, queue = '', name = ''] = (kinds[i + 1] as string).split(':')
    const kind = Number(kinds[i])
    names.set(kind, { queue, name, lane: Number(lane), tokenEnd: tokenEnd(kind, claim) })
  }
  const startedAt = Number(now)
  const texts = typeof bodies === 'string' ? bodies.split(separator) : bodies
  return tickets.split('\n').map((ticket, i) => {
    const { kind, created_at, max_attempts, max_crashes, input, overrides, metadata } = readBody(
      texts[i] as string,
    )
    const { queue, name, lane, tokenEnd } = names.get(kind) as KindName
    const past = pastIn(stories[i])
    return {
      id: idIn(ticket),
      token: ticket.slice(0, positionDigits) + tokenEnd,
      name,
      queue,
      lane,
      input,
      attempt: (past.attempt ?? 0) + 1,
      crashes: past.crashes ?? 0,
      maxAttempts: max_attempts,
      maxCrashes: max_crashes,
      createdAt: created_at,
      readyAt: past.readyAt ?? created_at,
      startedAt,
      retryDelay: past.retryDelay ?? 0,
      overrides: overrides ?? undefined,
      tags: undefined,
      metadata: metadata ?? undefined,
      group: undefined,
      key: undefined,
      suspect: false,
      family: undefined,
      guard: undefined,
      stepped: false,
      cancelReason: undefined,
    }
  })
}
