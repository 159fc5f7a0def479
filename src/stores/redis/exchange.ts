import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { ClaimRequest, ExchangeRequest, ExchangeResult, SettleResult } from '../../core/store.js'
import { kindIn } from '../page/kinds.js'
import { separator } from '../page/separator.js'
import { type Body, readBody } from './body.js'
import { type ClaimedKind, plainClaimed } from './claimed.js'
import type { Connection } from './connection.js'
import type { CompiledDurability } from './durability.js'
import { argsOf, type Ends, endsOf, isPlainEnd } from './ends.js'
import { scripts } from './scripts.js'
import { idIn, positionDigits } from './ticket.js'
import { tellsOfSeveral, tokenEnd } from './token.js'
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
  /** Numbers of the gates of their groups, a line each; '' if none has one. */
  gates: string,
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
  /** What is told by a word of the server has been confirmed by no replica. */
  readonly #mayLeaveClaims: boolean

  constructor(
    connection: Connection,
    ear: () => string,
    now: () => number | '',
    durability: CompiledDurability | undefined,
  ) {
    this.#connection = connection
    this.#ear = ear
    this.#now = now
    this.#mayLeaveClaims = durability === undefined
  }

  /** Whether all of it is plain, as far as can be seen from here. */
  takes({ settlements, rescue }: ExchangeRequest): boolean {
    return rescue !== true && settlements.every((end) => isPlainEnd(end) && !tellsOfSeveral(end.token))
  }

  /** Undefined when only the desk can: nothing was written. */
  async exchange(
    { worker, settlements, claim }: ExchangeRequest,
    limited: ReadonlySet<string>,
  ): Promise<Exchanged | undefined> {
    const ends = endsOf(settlements)
    const asked = claim === undefined ? [] : askedFor(claim, this.#mayLeaveClaims, limited)
    const args = [this.#now(), worker, this.#ear(), ends.places.length, ...argsOf(ends), ...asked]
    const answer = (await this.#connection.run(scripts.exchange, args)) as Answer
    if ((answer as readonly unknown[])[0] === 'desk') return undefined
    const settled = settledBy(settlements.length, ends, answer[1])
    const claimed = claim === undefined ? [] : claimedIn(answer, claim.token)
    return { result: { settled, claimed, opens: undefined }, waits: answer[6] === 1 }
  }
}

function askedFor(
  { token, lease, room, picks, lasting, known }: ClaimRequest,
  mayStay: boolean,
  limited: ReadonlySet<string>,
): (string | number)[] {
  const args: (string | number)[] = [token, lease, room.shared]
  for (let lane = 0; lane < 4; lane++) args.push(room.own[lane] ?? 0)
  args.push(mayStay && lasting === true && room.own.every((slots) => slots === 0) ? 1 : 0)
  args.push(picks.some(({ queue }) => limited.has(queue)) ? knownText(known) : '')
  for (const { queue, lane, take } of picks) args.push(queue, lane, take)
  return args
}

/** A star for one who takes all. */
function knownText(known: ClaimRequest['known']): string {
  return known === undefined ? '*' : [...known].join('\n')
}

/** `lost`: places among the ends, from 1 on. */
function settledBy(count: number, { places }: Ends, lost: readonly number[]): SettleResult[] {
  const settled = new Array<SettleResult>(count).fill('lost')
  for (const place of places) settled[place] = 'applied'
  for (const i of lost) settled[places[i - 1] as number] = 'lost'
  return settled
}

/** Exported for jobs that come by another way. */
export function claimedIn(
  [now, , kinds, tickets, bodies, stories, , gates]: Answer,
  claim: string,
): ClaimedJob[] {
  if (tickets === '') return []
  const names = new Map<number, ClaimedKind>()
  for (let i = 0; i < kinds.length; i += 2) {
    const { queue, name, lane } = kindIn(kinds[i + 1] as string)
    const kind = Number(kinds[i])
    names.set(kind, { queue, name, lane, tokenEnd: tokenEnd(kind, claim), group: undefined })
  }
  const kindOf = gates === '' ? ({ kind }: Body) => names.get(kind) : groupedKinds(names, gates, claim)
  const startedAt = Number(now)
  const texts = typeof bodies === 'string' ? bodies.split(separator) : bodies
  return tickets.split('\n').map((ticket, i) => {
    const body = readBody(texts[i] as string)
    const kind = kindOf(body, i) as ClaimedKind
    const position = ticket.slice(0, positionDigits)
    return plainClaimed(idIn(ticket), position, kind, body, pastIn(stories[i]), startedAt)
  })
}

/** Where jobs have groups: by the job's kind and the gate of its group. `i`: its place among those that were claimed. */
function groupedKinds(
  kinds: ReadonlyMap<number, ClaimedKind>,
  gates: string,
  claim: string,
): (body: Body, i: number) => ClaimedKind | undefined {
  const known = new Map<string, ClaimedKind>()
  const gateOf = gates.split('\n')
  return ({ kind: num, unusual }, i) => {
    const gate = gateOf[i] as string
    if (gate === '') return kinds.get(num)
    const key = `${num}~${gate}`
    let kind = known.get(key)
    if (kind === undefined) {
      const { traffic } = JSON.parse(unusual as string) as Pick<NewJob, 'traffic'>
      const end = tokenEnd(num, claim, gate)
      kind = { ...(kinds.get(num) as ClaimedKind), tokenEnd: end, group: traffic?.group }
      known.set(key, kind)
    }
    return kind
  }
}
