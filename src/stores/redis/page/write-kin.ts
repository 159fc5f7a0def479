/** Parents, links, and what else is kept beside a job: its steps and its logs. */
import type { KinChanges } from '../../page/kin.js'
import type { LinkRow } from '../../page/links.js'
import type { PagedTables } from '../../page/tables.js'
import { idIn } from '../ticket.js'
import type { Deeds } from './deeds.js'
import type { ParentText } from './job-reply.js'
import { writeLinkText } from './link-text.js'

export function writeKin(
  tables: PagedTables,
  kin: KinChanges,
  tickets: ReadonlyMap<number, string>,
  deeds: Deeds,
): void {
  for (const seq of kin.noParents) {
    deeds.call('HDEL', 'parents', seq)
    deeds.call('ZREM', 'doomed', idOfTicket(tickets, seq))
    deeds.call('DEL', `link:${seq}`)
    deeds.call('DEL', `linked:${seq}`)
  }
  for (const seq of kin.noFans) deeds.write('forgetFans', seq)
  for (const { seq, waiting, doomed, state } of kin.parents) {
    const text: ParentText = [waiting, doomed, state]
    deeds.call('HSET', 'parents', seq, JSON.stringify(text))
    if (doomed === null) deeds.call('ZREM', 'doomed', idOfTicket(tickets, seq))
    else deeds.call('ZADD', 'doomed', seq, idOfTicket(tickets, seq))
  }
  for (const [parent, rows] of byParent(kin.newLinks)) {
    const children = rows.map(({ child }) => child)
    deeds.checkAll(['unlinked', parent], children)
    deeds.calls(
      'ZADD',
      `linked:${parent}`,
      children.flatMap((child) => [0, child]),
    )
  }
  for (const [parent, rows] of byParent([...kin.newLinks, ...kin.links]))
    deeds.calls(
      'HSET',
      `link:${parent}`,
      rows.flatMap((row) => [row.child, writeLinkText(row)]),
    )
  for (const seq of kin.noSteps) deeds.call('DEL', `steps:${seq}`)
  for (const { seq, name, open, state } of kin.steps)
    deeds.write('step', seq, name, tables.nextNum(), open ? 1 : 0, state)
  for (const seq of kin.noLogs) deeds.call('DEL', `logs:${seq}`)
}

function byParent(links: readonly LinkRow[]): Map<number, LinkRow[]> {
  const families = new Map<number, LinkRow[]>()
  for (const link of links) {
    const family = families.get(link.parent)
    if (family === undefined) families.set(link.parent, [link])
    else family.push(link)
  }
  return families
}

function idOfTicket(tickets: ReadonlyMap<number, string>, seq: number): string {
  return idIn(tickets.get(seq) as string)
}
