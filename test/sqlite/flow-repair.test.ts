/** Counts that are wrong, as no run of Millrace leaves them: another hand has changed the file. */
import Database from 'better-sqlite3'
import { defineJob, type JobState } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { TestMill } from 'millrace/testing'
import { afterEach, describe, expect, test } from 'vitest'
import { family as familySql } from '../../src/stores/sqlite/sql.generated.js'
import { file } from '../engine/mill.js'

const child = defineJob({ name: 'child', run: (n: number) => n })
const parent = defineJob({
  name: 'parent',
  async run(_: null, { children }) {
    const states: string[] = []
    for await (const { state } of children()) states.push(state)
    return states
  },
})
const keep = { completed: 1e6, dead: 1e6 }
const cleanUps: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

interface Site {
  readonly mill: TestMill
  readonly store: SqliteStore
  readonly db: Database.Database
  sweep(times: number): Promise<void>
  stateOf(id: string): Promise<JobState>
}

/** A mill, its store and another hand on its file. */
async function site(jobs = [child, parent] as ConstructorParameters<typeof TestMill>[0]): Promise<Site> {
  const path = file()
  let store: SqliteStore | undefined
  const mill = new TestMill({
    ...(Array.isArray(jobs) ? { jobs } : jobs),
    store: (clock) => {
      store = new SqliteStore({ file: path, clock, synchronous: 'normal' })
      return store
    },
  })
  cleanUps.push(() => mill.close())
  await mill.open()
  const db = new Database(path)
  cleanUps.push(() => void db.close())
  return {
    mill,
    store: store as unknown as SqliteStore,
    db,
    sweep: async (times) => {
      for (let i = 0; i < times; i++) await store?.sweep({ limit: 1_000, keep })
    },
    stateOf: (id) => mill.job(id).state(),
  }
}

/** Runs the children, which wait in a queue that a drain leaves alone. */
async function runChildren(mill: TestMill): Promise<void> {
  const worker = mill.worker({ queues: ['children'], handleSignals: false })
  await worker.start()
  await mill.advance('1s')
  await worker.stop()
}

function flow(mill: TestMill, id: string, children = 2) {
  const inputs = Array.from({ length: children }, (_, i) => i)
  return mill.flow(
    {
      job: parent,
      input: null,
      children: inputs.map(
        (input) => ({ job: child, input, onFailure: 'continue', options: { queue: 'children' } }) as const,
      ),
    },
    { id },
  )
}

const setWaiting =
  'UPDATE millrace_parent SET waiting = ? WHERE seq = (SELECT seq FROM millrace_job WHERE id = ?)'

describe('a parent is released', () => {
  test.for([5, 0, -3])('whose count of two was set to %i, when its children have ended', async (waiting) => {
    const { mill, db, sweep, stateOf } = await site()
    const handle = await flow(mill, 'f')
    db.prepare(setWaiting).run(waiting, 'f')
    await sweep(3)
    expect(await stateOf('f')).toBe('blocked')
    await runChildren(mill)
    await sweep(2)
    await mill.drain()
    expect(await handle.result()).toEqual(['completed', 'completed'])
  })

  test('whose children are gone without a word', async () => {
    const { mill, db, sweep } = await site()
    const handle = await flow(mill, 'f')
    db.prepare("DELETE FROM millrace_job WHERE id LIKE 'f.%'").run()
    db.prepare('DELETE FROM millrace_ready').run()
    await sweep(2)
    await mill.drain()
    expect(await handle.result()).toEqual(['cancelled', 'cancelled'])
  })

  test('whose child had ended unheard; it gets the result', async () => {
    const sum = defineJob({
      name: 'parent',
      run: async (_: null, { results }) => (await results(child)).reduce((a, b) => a + b, 0),
    })
    const { mill, db, sweep } = await site({ jobs: [child, sum] })
    const handle = await flow(mill, 'f', 3)
    await mill.job('f.0000003').cancel()
    db.prepare("UPDATE millrace_job SET state = 5, result = '7' WHERE id IN ('f.0000001', 'f.0000002')").run()
    db.prepare('DELETE FROM millrace_ready').run()
    await sweep(2)
    await mill.drain()
    expect(await handle.result()).toBe(14)
  })

  test('whose step has lost its children, also beside a signal', async () => {
    const fans = defineJob({
      name: 'fans',
      async run(_: null, { step }) {
        const some = step.children('some', child, [1, 2], { queue: 'children', onFailure: 'continue' })
        return step.race([some.then((all) => all.map(({ state }) => state)), step.waitFor('word')])
      },
    })
    const { mill, db, sweep } = await site({ jobs: [child, fans] })
    const handle = await mill.enqueue(fans, null)
    await mill.drain()
    expect(await handle.state()).toBe('blocked')
    db.prepare('DELETE FROM millrace_job WHERE id <> ?').run(handle.id)
    db.prepare('DELETE FROM millrace_ready').run()
    await sweep(2)
    await mill.drain()
    expect(await handle.result()).toEqual(['cancelled', 'cancelled'])
  })

  test('within a bounded number of sweeps, however many wait', async () => {
    const { mill, db, sweep, stateOf } = await site()
    for (let i = 0; i < 300; i++) await flow(mill, `f${i}`, 1)
    for (const id of ['f0', 'f150', 'f299']) {
      db.prepare('DELETE FROM millrace_job WHERE id = ?').run(`${id}.0000001`)
    }
    await sweep(8)
    expect(await Promise.all(['f0', 'f150', 'f299', 'f1'].map(stateOf))).toEqual([
      'pending',
      'pending',
      'pending',
      'blocked',
    ])
  })
})

describe('a parent is left alone', () => {
  test('that waits as it should, also beside a sleep or a signal, or for more children', async () => {
    let runs = 0
    const beside = defineJob({
      name: 'beside',
      async run(what: 'sleep' | 'signal' | 'signal alone', { step }) {
        runs++
        if (what === 'signal alone') {
          await step.children('some', quick, [1])
          return step.waitFor('word')
        }
        const other = what === 'sleep' ? step.sleep('1h') : step.waitFor('word')
        return step.all([other, step.children('some', child, [1, 2], { queue: 'children' })])
      },
    })
    const quick = defineJob({ name: 'quick', run: (n: number) => n })
    const { mill, sweep, db } = await site({ jobs: [child, quick, parent, beside] })
    const handles = [
      await mill.enqueue(beside, 'sleep'),
      await mill.enqueue(beside, 'signal'),
      await mill.enqueue(beside, 'signal alone'),
      await flow(mill, 'f'),
      await mill.batch({ id: 'open' }),
    ]
    await mill.drain()
    const before = [runs, table(db)]
    await sweep(10)
    expect(await Promise.all(handles.map((handle) => handle.state()))).toEqual(Array(5).fill('blocked'))
    await mill.drain()
    expect([runs, table(db)]).toEqual(before)
  })

  function table(db: Database.Database): unknown[] {
    return db.prepare('SELECT seq, waiting, fanned, failed, open FROM millrace_parent ORDER BY seq').all()
  }
})

describe('the look is cheap', () => {
  test('its statements use indexes', async () => {
    const { db } = await site()
    const plan = (sql: string, ...values: unknown[]) =>
      (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]).map(
        ({ detail }) => detail,
      )
    const untimed = plan(familySql.untimed, 0, 50).join('\n')
    expect(untimed).toMatch(/SEARCH millrace_job USING (COVERING )?INDEX millrace_job_blocked/)
    expect(untimed).toMatch(/SEARCH p USING INTEGER PRIMARY KEY/)
    expect(untimed).not.toMatch(/SCAN (millrace|p|w)|TEMP B-TREE/)
    const openChild = plan(familySql.openChild, 1).join('\n')
    expect(openChild).toMatch(/SEARCH l USING INDEX millrace_link_open/)
    expect(openChild).not.toMatch(/SCAN|TEMP B-TREE/)
    const isFanOpen = plan(familySql.isFanOpen, 1, 'fan').join('\n')
    expect(isFanOpen).toMatch(/USING INDEX millrace_link_open \(parent=\? AND fan=\?\)/)
  })

  test.for([
    { waiting: 10_000, done: 0 },
    { waiting: 10, done: 100_000 },
  ])(
    'with $waiting waiting parents of ten children each, and $done that are done',
    async ({ waiting, done }) => {
      const { db, store } = await site()
      db.exec(`
      INSERT INTO millrace_queue (name) VALUES ('made');
      INSERT INTO millrace_kind (queue, lane, name, max_attempts, max_crashes, traits)
        SELECT id, 2, 'made', 5, 3, 1 FROM millrace_queue WHERE name = 'made';
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${done + waiting})
        INSERT INTO millrace_job (id, kind, state, created_at, input, expires_at)
        SELECT 'p' || i, (SELECT max(id) FROM millrace_kind), iif(i > ${done}, 4, 5), 0, 'null',
          iif(i > ${done}, NULL, 9000000000000000) FROM n;
      INSERT INTO millrace_parent (seq, children, waiting)
        SELECT seq, 10, iif(state = 4, 10, 0) FROM millrace_job;
      WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
        INSERT INTO millrace_link (parent, child, name, on_failure, wakes)
        SELECT seq, id || '.' || i, 'made', 'fail', 0 FROM millrace_job, n WHERE state = 4;
      INSERT INTO millrace_job (id, kind, state, created_at, input)
        SELECT child, (SELECT max(id) FROM millrace_kind), 1, 0, 'null' FROM millrace_link;
    `)
      const took: number[] = []
      for (let i = 0; i < 200; i++) {
        const start = performance.now()
        await store.sweep({ limit: 100, keep })
        took.push(performance.now() - start)
      }
      took.sort((a, b) => a - b)
      // A look at all of them takes ten times as long and more.
      expect(took[100]).toBeLessThan(5)
      const count = db.prepare('SELECT count(*) FROM millrace_parent WHERE waiting = 10').pluck()
      expect(count.get()).toBe(waiting)
    },
  )
})
