/**
 * Handlers write in the transaction that completes their job, while workers, connections and the server are killed. What
 * a job wrote is there once if it completed, and not at all otherwise (I12): not even when the answer to the commit is lost.
 */
import { startProxy } from '../../servers/proxy.js'
import { type Arena, type Findings, type Judgement, repeat, sleep } from '../arena.js'
import type { FinalJob } from '../checker.js'
import { postgresPlace, withClient } from '../engine.js'
import { fault } from '../fault.js'
import { booked } from '../jobs.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { roundsOf } from './crew.js'
import { killArmed } from './kill-at-fail-points.js'
import { terminateAll } from './server.js'

export const transactionFaults = [
  fault('handler-tx', 1, killAll, ['postgres']),
  fault('handler-tx-silent', 0, fallSilent, ['postgres']),
]

async function killAll(arena: Arena): Promise<Row> {
  const { url } = postgresPlace(arena.place)
  const members = await Promise.all([arena.startWorker(), arena.startWorker()])
  const books = await startBooking(arena)
  await killArmed(arena, [{ 'handler-done': 0.05 }, { 'settle-sent': 0.05 }])
  const rounds = roundsOf(arena, 10)
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(100, 500))
    await arena.heal(members, async () => void (await withClient(url, terminateAll)))
    await sleep(arena.random.between(100, 500))
    await arena.server.kill()
    arena.kills++
    await arena.heal(members, () => arena.server.start())
  }
  return books.judge({
    injected: arena.kills + rounds,
    note: `${rounds} kills of the server and ${rounds} of all connections among them`,
  })
}

/**
 * A process falls silent in the middle of its transactions: no answer reaches it, and the server hears nothing of it. The
 * others must not wait for it longer than for any other that is lost.
 */
async function fallSilent(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 4)
  const place = postgresPlace(arena.place)
  const network = await startProxy(place.url)
  try {
    const silent = await arena.startWorker({ place: { ...place, url: network.through(place.url) } })
    const others = [await arena.startWorker()]
    const books = await startBooking(arena)
    for (let round = 0; round < rounds; round++) {
      await sleep(arena.random.between(500, 1_000))
      await arena.heal(others, () => network.dropReplies())
      await arena.heal([...others, silent], () => network.heal())
    }
    return await books.judge({ injected: rounds, graceMs: settings.graceMs })
  } finally {
    await network.close()
  }
}

interface Books {
  /** Ends the bookings and compares what was booked with what became of the jobs. */
  judge(judgement: Judgement): Promise<Row>
}

async function startBooking(arena: Arena): Promise<Books> {
  const { url, schema } = postgresPlace(arena.place)
  const table = `${schema}_entry`
  await withClient(url, (admin) => admin.query(`CREATE TABLE ${table} (job text)`))
  const stopFeeding = repeat(async () => {
    const { pending } = await arena.counts()
    for (let n = pending; n < 30; n++)
      await arena.enqueueJob(booked, { table, sleep: arena.random.integer(0, 30) })
    await sleep(15)
  })
  const judge = async (judgement: Judgement) => {
    await stopFeeding()
    return arena.judge({ ...judgement, repeats: true, inspect })
  }
  const inspect = async ({ jobs }: Findings) => {
    const { rows } = await withClient(url, (admin) =>
      admin.query<{ job: string }>(`SELECT job FROM ${table}`),
    )
    const written = countBy(rows.map(({ job }) => job))
    for (const text of wrongOf(jobs, written)) arena.accuse('I12', text)
    return `${rows.length} entries of ${jobs.length} jobs`
  }
  return { judge }
}

function wrongOf(jobs: readonly FinalJob[], written: ReadonlyMap<string, number>): string[] {
  return jobs.flatMap(({ id, state }) => {
    const [due, found] = [state === 'completed' ? 1 : 0, written.get(id) ?? 0]
    return due === found ? [] : [`${id} is ${state} and wrote ${found} entries`]
  })
}

function countBy(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}
