/**
 * Between a relay and its outbox: writes down what was claimed and what became of it, and is where the relay dies. It
 * changes nothing that passes through.
 */
import type { Claim, OutboxStore, Row, Verdict } from 'millrace/outbox'
import type { Doom } from '../fail-points.js'
import type { Journal } from '../journal.js'
import type { Random } from '../random.js'
import type { Following } from './contract.js'
import type { OutboxFailPoint } from './fail-points.js'
import { type ClaimedBy, nameOf, type OutboxEvent } from './history.js'

export interface Sabotage {
  readonly doom: Doom<OutboxFailPoint>
  /** Ends the process after so many milliseconds, whatever it is doing. */
  readonly kill: (delayMs: number) => void
  readonly random: Random
}

/** How long a settlement takes, more or less; and the beginning of a stream. */
const settleMs = 4
const beginMs = 400

type Window = 'claimed' | 'delivered' | 'settle-sent' | 'settled'

const points: Readonly<Record<ClaimedBy, Readonly<Record<Window, OutboxFailPoint>>>> = {
  poll: { claimed: 'claimed', delivered: 'delivered', 'settle-sent': 'settle-sent', settled: 'settled' },
  'catch-up': {
    claimed: 'catching-up',
    delivered: 'catching-up',
    'settle-sent': 'catching-up',
    settled: 'catching-up',
  },
  stream: {
    claimed: 'streamed',
    delivered: 'stream-delivered',
    'settle-sent': 'stream-settle-sent',
    settled: 'stream-settled',
  },
}

export class RecordingOutbox implements OutboxStore {
  readonly #inner: OutboxStore
  readonly #journal: Journal<OutboxEvent>
  readonly #sabotage: Sabotage
  #claims = 0
  #hasFrozen = false

  constructor(inner: OutboxStore, journal: Journal<OutboxEvent>, sabotage: Sabotage) {
    this.#inner = inner
    this.#journal = journal
    this.#sabotage = sabotage
  }

  get capabilities() {
    return this.#inner.capabilities
  }

  async claim(request: Parameters<OutboxStore['claim']>[0]): Promise<Claim> {
    return this.#claimed(await this.#inner.claim(request), 'poll')
  }

  async follow(request: Parameters<OutboxStore['follow']>[0]): Promise<Following | undefined> {
    const { doom, kill, random } = this.#sabotage
    if (doom.strikes('begins')) {
      doom.announce('begins')
      kill(random.between(0, beginMs))
    }
    const following = await this.#inner.follow(request)
    return following && this.#followed(following)
  }

  #followed(inner: Following): Following {
    const claims = new Map<Row, string>()
    return {
      claim: async (limit) => this.#claimed(await inner.claim(limit), 'catch-up'),
      next: async (limit, ms) => {
        const rows = await inner.next(limit, ms)
        if (rows.length === 0) this.#journal.write({ e: 'idle' })
        else {
          const claim = this.#note(rows, 'stream')
          for (const row of rows) claims.set(row, claim)
        }
        return rows
      },
      settle: async (rows) => {
        const [first] = rows
        const claim = first === undefined ? undefined : claims.get(first)
        if (claim === undefined) return inner.settle(rows)
        await this.#settled(claim, 'stream', () => inner.settle(rows).then(() => 'settled' as const))
        for (const row of rows) claims.delete(row)
      },
      lag: () => inner.lag(),
      isLate: (ms) => inner.isLate(ms),
      close: () => inner.close(),
    }
  }

  #claimed(inner: Claim, how: ClaimedBy): Claim {
    const { rows } = inner
    if (rows.length === 0) {
      this.#journal.write({ e: 'idle' })
      return inner
    }
    const claim = this.#note(rows, how)
    return {
      rows,
      settle: (verdicts: readonly Verdict[]) => this.#settled(claim, how, () => inner.settle(verdicts)),
      release: async () => {
        await inner.release()
        this.#journal.write({ e: 'settle-result', claim, result: 'released' })
      },
    }
  }

  #note(rows: readonly Row[], how: ClaimedBy): string {
    const claim = String(++this.#claims)
    this.#journal.write({ e: 'claimed', claim, how, rows: rows.map(nameOf) })
    this.#sabotage.doom.at(points[how].claimed)
    return claim
  }

  async #settled(
    claim: string,
    how: ClaimedBy,
    settle: () => Promise<'settled' | 'lost'>,
  ): Promise<'settled' | 'lost'> {
    const { doom, kill, random } = this.#sabotage
    doom.at(points[how].delivered)
    if (!this.#hasFrozen && doom.strikes(how === 'stream' ? 'stream-freeze' : 'freeze')) {
      this.#hasFrozen = true
      this.#journal.write({ e: 'frozen', claim })
      process.kill(process.pid, 'SIGSTOP')
    }
    this.#journal.write({ e: 'settle-try', claim })
    const sent = points[how]['settle-sent']
    if (doom.strikes(sent)) {
      doom.announce(sent)
      kill(random.between(0, settleMs))
    }
    try {
      const result = await settle()
      this.#journal.write({ e: 'settle-result', claim, result })
      doom.at(points[how].settled)
      return result
    } catch (error) {
      this.#journal.write({ e: 'settle-result', claim, result: 'failed' })
      throw error
    }
  }

  open() {
    return this.#inner.open()
  }

  close() {
    return this.#inner.close()
  }

  write(...given: Parameters<OutboxStore['write']>) {
    return this.#inner.write(...given)
  }

  figures() {
    return this.#inner.figures()
  }

  listAside(query: Parameters<OutboxStore['listAside']>[0]) {
    return this.#inner.listAside(query)
  }

  retryAside(ids: readonly string[]) {
    return this.#inner.retryAside(ids)
  }

  discardAside(ids: readonly string[]) {
    return this.#inner.discardAside(ids)
  }

  prune(request: Parameters<OutboxStore['prune']>[0]) {
    return this.#inner.prune(request)
  }

  receive(...given: Parameters<OutboxStore['receive']>) {
    return this.#inner.receive(...given)
  }

  subscribe(listener: Parameters<OutboxStore['subscribe']>[0]) {
    return this.#inner.subscribe(listener)
  }
}
