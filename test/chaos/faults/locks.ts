/** Somebody else's transaction stays open for seconds, or has a hot table for itself. */
import { sleep } from '../arena.js'
import { postgresPlace, withClient } from '../engine.js'
import { fault } from '../fault.js'
import { work } from '../jobs.js'
import { roundsOf, startCrew } from './crew.js'

/**
 * A snapshot that nobody may clean up behind, held while a transaction of the program adds jobs and takes its time.
 * Half of those roll back: a job exists if and only if its transaction committed.
 */
export const longTransaction = fault(
  'long-transaction',
  0,
  async (arena) => {
    const rounds = roundsOf(arena, 4)
    const { url, schema } = postgresPlace(arena.place)
    const crew = await startCrew(arena)
    const dropped: string[] = []
    await arena.mill.open()
    await withClient(url, async (reader) => {
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await reader.query(`SELECT count(*) FROM ${schema}.job`)
      for (let round = 0; round < rounds; round++) {
        const commits = round % 2 === 0
        await withClient(url, async (tx) => {
          const ids = ['a', 'b', 'c'].map((name) => `held-${round}-${name}`)
          await tx.query('BEGIN')
          for (const id of ids) await arena.mill.enqueue(work, {}, { id, tx })
          await arena.heal(crew.members, () => sleep(2_000))
          await tx.query(commits ? 'COMMIT' : 'ROLLBACK')
          if (commits) arena.acknowledge(ids)
          else dropped.push(...ids)
        })
        arena.options.progress(`${round + 1} of ${rounds} rounds`)
      }
      await reader.query('COMMIT')
    })
    return crew.judge({
      injected: rounds + 1,
      note: 'work went on meanwhile',
      inspect: ({ jobs }) => {
        const present = new Set(jobs.map(({ id }) => id))
        for (const id of dropped)
          if (present.has(id)) arena.accuse('I12', `${id} exists although its transaction rolled back`)
        return `${dropped.length} jobs rolled back, none exists`
      },
    })
  },
  ['postgres'],
)

const hotTables = ['job', 'lease', 'ready', 'worker', 'tally', 'done', 'number', 'kind', 'queue'] as const

/** As a migration or VACUUM FULL does it, for longer than a lease and than the wait for a lock. */
export const lockedTable = fault(
  'ddl-lock',
  0,
  async (arena) => {
    const tables = hotTables.slice(0, roundsOf(arena, hotTables.length))
    const { url, schema } = postgresPlace(arena.place)
    const crew = await startCrew(arena)
    for (const table of tables) {
      await sleep(arena.random.between(100, 500))
      await withClient(url, async (admin) => {
        await admin.query('BEGIN')
        await admin.query(`LOCK TABLE ${schema}.${table} IN ACCESS EXCLUSIVE MODE`)
        await sleep(2_500)
        await arena.heal(crew.members, async () => {
          await admin.query('COMMIT')
        })
      })
      arena.options.progress(table)
    }
    return crew.judge({
      injected: tables.length,
      repeats: true,
      note: `each of ${tables.join(', ')} for 2.5 s`,
    })
  },
  ['postgres'],
)
