/** Does what an operator asks to jobs, wherever they are. */
import type { Command, JobQuery, OperateReport, Selector } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Homecoming } from './homecoming.js'
import { notOurs } from './merging.js'
import { homeLast, relates, shardOf } from './placing.js'
import { mergeOperations } from './reports.js'

export class Operating {
  readonly #home: ShardStore
  readonly #shards: readonly ShardStore[]
  readonly #homecoming: Homecoming

  constructor(shards: readonly ShardStore[], homecoming: Homecoming) {
    this.#home = shards[0] as ShardStore
    this.#shards = shards
    this.#homecoming = homecoming
  }

  async operate(selector: Selector, command: Command): Promise<OperateReport> {
    if ('ids' in selector) return this.#operateOn(selector.ids, command)
    const shards = homeLast(this.#shards)
    const [first, start] = readCursor(selector.cursor, shards.length)
    let sum = mergeOperations([])
    for (let at = first, cursor = start; at < shards.length; at++, cursor = undefined) {
      const query = { ...selector, limit: selector.limit - touchedBy(sum), cursor }
      const report = await this.#operateAt(
        shards[at] as ShardStore,
        query,
        later(command, sum.affected.length),
      )
      sum = mergeOperations([sum, report])
      if (report.cursor !== undefined) return { ...sum, cursor: `${at}:${report.cursor}` }
      if (touchedBy(sum) >= selector.limit && at + 1 < shards.length) return { ...sum, cursor: `${at + 1}:` }
    }
    return sum
  }

  #operateAt(shard: ShardStore, query: JobQuery, command: Command): Promise<OperateReport> {
    if (shard === this.#home || !needsHome(command)) return shard.operate(query, command)
    return this.#operateOnList(shard, query, command)
  }

  /** Each is where its id says, at home, or on its way there. */
  async #operateOn(ids: readonly string[], command: Command): Promise<OperateReport> {
    const parts = this.#shards.map((_, shard) =>
      shard === 0 ? [] : ids.filter((id) => shardOf(id, this.#shards.length) === shard),
    )
    const reports = await Promise.all(
      parts.map(async (part, i) => {
        const shard = this.#shards[i] as ShardStore
        if (part.length === 0) return undefined
        if (!needsHome(command)) return shard.operate({ ids: part }, command)
        await this.#homecoming.idle(shard, part)
        return undefined
      }),
    )
    const away = mergeOperations(reports.filter((report) => report !== undefined))
    const done = new Set([...away.affected, ...away.asked, ...away.refused])
    const rest = ids.filter((id) => !done.has(id))
    if (rest.length === 0) return { ...away, missing: [] }
    const atHome = await this.#home.operate({ ids: rest }, later(command, away.affected.length))
    const first = mergeOperations([{ ...away, missing: [] }, atHome])
    const arrived = await this.#homecoming.finish(this.#shards, atHome.missing)
    if (arrived.length === 0) return first
    const then = await this.#home.operate({ ids: arrived }, later(command, first.affected.length))
    const found = new Set(arrived.filter((id) => !then.missing.includes(id)))
    return { ...mergeOperations([first, then]), missing: first.missing.filter((id) => !found.has(id)) }
  }

  async #operateOnList(shard: ShardStore, query: JobQuery, command: Command): Promise<OperateReport> {
    const { jobs, cursor } = await shard.list(query)
    return {
      ...(await this.#operateOn(
        jobs.map(({ id }) => id),
        command,
      )),
      cursor,
    }
  }
}

function touchedBy({ affected, asked, refused }: OperateReport): number {
  return affected.length + asked.length + refused.length
}

function needsHome(command: Command): boolean {
  return command.do === 'seal' || (command.do === 'retry' && relates(command.change))
}

/** The same for jobs that come after `count` others. */
function later(command: Command, count: number): Command {
  return command.do === 'retry' ? { ...command, delay: command.delay + count * command.spacing } : command
}

function readCursor(cursor: string | undefined, shards: number): [shard: number, cursor: string | undefined] {
  if (cursor === undefined) return [0, undefined]
  const [, shard, inner] = /^(\d+):(.*)$/s.exec(cursor) ?? []
  if (shard === undefined || Number(shard) >= shards) throw notOurs(cursor)
  return [Number(shard), inner || undefined]
}
