import type { ExchangeRequest, ExchangeResult, Signal } from '../../core/store.js'
import { newToken } from '../../system/ids.js'
import { DeskExchange } from '../page/desk-exchange.js'
import { DeskInsert } from '../page/desk-insert.js'
import type { WorkAtDesk } from '../page/desk-options.js'
import { Subscribers } from '../page/subscribers.js'
import { AtDesk } from './at-desk.js'
import { type Connection, openConnection } from './connection.js'
import { Desk } from './desk.js'
import { endWords } from './ends.js'
import { isRefusedWith } from './errors.js'
import { Exchanger } from './exchange.js'
import { FastPath } from './fast-path.js'
import { Gifts } from './gifts.js'
import { IdleLeases } from './idle-lease.js'
import { hasMarks, Inserter } from './insert.js'
import { Inserting } from './inserting.js'
import { deskNeeds } from './needs.js'
import type { CompiledOptions } from './options.js'
import { Prompt } from './prompt.js'
import { Quiet } from './quiet.js'
import { Reader } from './read.js'
import { WakeUps } from './wake-ups.js'

/** What an open shard consists of. */
export interface Engine {
  readonly connection: Connection
  readonly fastPath: FastPath
  readonly prompt: Prompt
  readonly gifts: Gifts
  readonly atDesk: AtDesk
  readonly inserting: Inserting
  readonly deskExchange: DeskExchange
  readonly reader: Reader
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps | undefined
  readonly quiet: Quiet
  readonly idleLeases: IdleLeases
  tell(signal: Signal): void
}

/** How its parts exchange with the store that they are parts of; `ask`: whatever is waited for, the server is asked. */
interface Exchange {
  exchange(request: ExchangeRequest): Promise<ExchangeResult>
  ask(request: ExchangeRequest): Promise<ExchangeResult>
}

/** It does not listen yet: what it hears is for a store that has it. */
export async function makeEngine(
  shard: number,
  options: CompiledOptions,
  closing: AbortSignal,
  { exchange, ask }: Exchange,
): Promise<Engine> {
  const { clock, listen, durability } = options
  const connection = await openConnection(options, shard, closing)
  const subscribers = new Subscribers()
  const ear = newToken()
  const now = () => clock?.now() ?? ''
  // A clock of the caller's may leap: then everything is asked.
  const isHeard = () => clock === undefined && wakeUps?.listening === true
  const quiet = new Quiet(connection, isHeard)
  const idleLeases = new IdleLeases(connection, now, isHeard)
  const tell = (signal: Signal) => {
    if (signal.type !== 'claimed' && signal.type !== 'reported') quiet.wake()
    if (signal.type !== 'reported') idleLeases.wake()
    subscribers.tell(signal)
  }
  const gifts = new Gifts({ tell, exchange })
  const receive = (message: string) => gifts.receive(message)
  const wakeUps = listen ? new WakeUps(connection, ear, tell, receive) : undefined
  const desk = new Desk(connection, ear, clock, shard === 0)
  const atDesk = new AtDesk(desk, tell)
  const work: WorkAtDesk = (verb, options, after) => atDesk.work(verb, options, after)
  const deskInsert = new DeskInsert(work, (error) => isRefusedWith(error, 'MRKNOWN'))
  const deskExchange = new DeskExchange({
    work,
    ends: endWords,
    needs: deskNeeds,
    isMore: hasMarks,
    isNotByCount: (error) => isRefusedWith(error, 'MRWHOLE'),
  })
  const inserter = new Inserter(connection, ear, now)
  const heardBy = () => (wakeUps?.listening ? ear : '')
  const exchanger = new Exchanger(connection, heardBy, now, durability)
  const { limited } = atDesk
  const prompt = new Prompt({ inserter, exchanger, limited, tell })
  const fastPath = new FastPath({ inserter, exchanger, prompt, limited })
  const reader = new Reader(desk)
  const inserting = new Inserting({ connection, fastPath, atDesk, deskInsert, reader, tell, ask })
  return {
    connection,
    fastPath,
    prompt,
    gifts,
    atDesk,
    inserting,
    deskExchange,
    reader,
    subscribers,
    wakeUps,
    quiet,
    idleLeases,
    tell,
  }
}
