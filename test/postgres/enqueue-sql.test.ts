/** The SQL function `enqueue`, for triggers and other languages. */
import { defineJob, Millrace } from 'millrace'
import { postgresStore } from 'millrace/postgres'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bounds } from '../../src/core/bounds.js'
import { defaults } from '../../src/core/options.js'
import { asAdmin, serverUrl } from './postgres.js'

const schema = `test_${process.pid}_Enqueue`
const receipt = defineJob({
  name: 'send-receipt',
  run: ({ order, at }: { order: number; at?: Date }) =>
    `receipt ${order}${at ? ` of ${at.getFullYear()}` : ''}`,
})
const limited = defineJob({
  name: 'limited',
  queue: 'limited',
  limit: { concurrency: 1 },
  run: (n: number) => n + 1,
})
const evolved = defineJob({
  name: 'evolved',
  version: 2,
  upgrade: (input: unknown, from) => `${input} since ${from}`,
  run: (text: string) => text,
})
let mill: Millrace
let client: pg.Client

beforeAll(async () => {
  mill = new Millrace({
    store: postgresStore({ url: serverUrl(), schema }),
    jobs: [receipt, limited, evolved],
  })
  await mill.open()
  await mill.worker({ handleSignals: false, poll: '50ms' }).start()
  client = new pg.Client(serverUrl())
  await client.connect()
})

afterAll(async () => {
  await client.end()
  await mill.close()
  await asAdmin((admin) => admin.query(`DROP SCHEMA "${schema}" CASCADE`))
})

async function enqueue(name: string | null, input: unknown = null, options: unknown = {}): Promise<string> {
  const values = [name, JSON.stringify(input), JSON.stringify(options)]
  const { rows } = await client.query(`SELECT "${schema}".enqueue($1, $2, $3) AS id`, values)
  return rows[0].id
}

describe('a trigger', () => {
  test('adds a job for each row, which a worker runs, and none for what is rolled back', async () => {
    await client.query(`
      CREATE TABLE "${schema}".orders (id int PRIMARY KEY, job text);
      CREATE FUNCTION "${schema}".ordered() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          NEW.job := "${schema}".enqueue('send-receipt', jsonb_build_object('order', NEW.id));
          RETURN NEW;
        END $$;
      CREATE TRIGGER ordered BEFORE INSERT ON "${schema}".orders FOR EACH ROW EXECUTE FUNCTION "${schema}".ordered()`)
    await client.query(`BEGIN; INSERT INTO "${schema}".orders VALUES (0); ROLLBACK`)
    for (const order of [1, 2, 3]) {
      const { rows } = await client.query(`INSERT INTO "${schema}".orders VALUES ($1) RETURNING job`, [order])
      expect(await mill.job(rows[0].job).result({ timeout: '10s' })).toBe(`receipt ${order}`)
    }
    expect((await mill.stats()).totals.enqueued).toBe(3)
  })
})

describe('enqueue', () => {
  test('takes nothing but a name, whatever the search_path', async () => {
    await client.query('CREATE TEMP TABLE kind (num int); SET search_path = pg_temp')
    const { rows } = await client.query(`SELECT "${schema}".enqueue('nobody-runs-it') AS id`)
    await client.query('RESET search_path; DROP TABLE pg_temp.kind')
    expect(rows[0].id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    const at = Number.parseInt(rows[0].id.replaceAll('-', '').slice(0, 12), 16)
    expect(Math.abs(at - Date.now())).toBeLessThan(60_000)
    expect(await mill.job(rows[0].id).get()).toMatchObject({
      name: 'nobody-runs-it',
      queue: defaults.queue,
      priority: defaults.priority,
      maxAttempts: defaults.maxAttempts,
      input: null,
    })
  })

  // The first of its kind waits for the desk, the second one goes straight in.
  test.each(['by the desk', 'straight'])('keeps all that it is given, %s', async (way) => {
    const id = `all-${way.replaceAll(' ', '-')}`
    const runAt = Date.now() + 3_600_000
    const options = {
      id,
      queue: 'later',
      priority: 'high',
      runAt,
      maxAttempts: 7,
      maxCrashes: 2,
      tags: ['a', 'b:c', 'a'],
      metadata: { none: null, text: 'ü\u001e' },
    }
    expect(await enqueue('unknown', { a: [1, null, '\u001e'] }, options)).toBe(id)
    expect(await mill.job(id).get()).toMatchObject({
      state: 'scheduled',
      queue: 'later',
      priority: 'high',
      dueAt: new Date(runAt),
      maxAttempts: 7,
      tags: ['a', 'b:c'],
      metadata: { none: null, text: 'ü\u001e' },
      input: { a: [1, null, '\u001e'] },
    })
  })

  test('decodes what JSON has not', async () => {
    const id = await enqueue('send-receipt', {
      order: 7,
      at: { $millrace: ['date', '2030-06-01T00:00:00.000Z'] },
    })
    expect(await mill.job(id).result({ timeout: '10s' })).toBe('receipt 7 of 2030')
  })

  test('leaves a job that has its id as it is', async () => {
    for (const order of [1, 2]) await enqueue('send-receipt', { order }, { id: 'once' })
    expect(await mill.job('once').result({ timeout: '10s' })).toBe('receipt 1')
  })

  test('obeys limits, groups and dedupe keys', async () => {
    const ids = [
      await enqueue('limited', 1, { queue: 'limited' }),
      await enqueue('limited', 2, { queue: 'limited' }),
    ]
    expect(await Promise.all(ids.map((id) => mill.job(id).result({ timeout: '10s' })))).toEqual([2, 3])
    const first = await enqueue('nobody-runs-it', 1, { queue: 'idle', group: 'g', key: 5, dedupe: 'one' })
    const second = await enqueue('nobody-runs-it', 2, { queue: 'idle', group: 'g', dedupe: { key: 'one' } })
    expect(await mill.job(first).get()).toMatchObject({ group: 'g', key: '5', input: 1 })
    expect(await mill.job(second).get()).toBeUndefined()
    const third = await enqueue('nobody-runs-it', 3, {
      dedupe: { key: 'late', mode: 'debounce', window: 60_000 },
    })
    expect(await mill.job(third).state()).toBe('scheduled')
  })

  test('tells the worker which form an input has', async () => {
    const ids = [await enqueue('evolved', 'old'), await enqueue('evolved', 'new', { version: 2 })]
    const results = await Promise.all(ids.map((id) => mill.job(id).result({ timeout: '10s' })))
    expect(results).toEqual(['old since 0', 'new'])
  })

  test('reads times in UTC, and delays in milliseconds', async () => {
    const due = async (options: object) =>
      (await mill.job(await enqueue('later', null, options)).get())?.dueAt?.getTime()
    const year = new Date().getUTCFullYear() + 1
    await client.query("SET timezone = 'Asia/Tokyo'")
    expect(await due({ runAt: `${year}-06-01T12:00:00` })).toBe(Date.UTC(year, 5, 1, 12))
    await client.query('RESET timezone')
    expect(await due({ runAt: `${year}-06-01T12:00:00+02:00` })).toBe(Date.UTC(year, 5, 1, 10))
    expect(Math.abs(((await due({ delay: 60_000 })) ?? 0) - Date.now() - 60_000)).toBeLessThan(10_000)
    expect(await due({ runAt: 5, delay: null, dedupe: null, tags: null })).toBeUndefined()
  })

  const long = 'x'.repeat(bounds.nameLength + 1)
  test.each<[string, string | null, unknown, unknown]>([
    ['name is null; expected 1 to 128 letters', null, null, {}],
    ['name is "a..b"; expected', 'a..b', null, {}],
    ['name is "', long, null, {}],
    [
      `input is ${bounds.payloadBytes + 2}; expected at most ${bounds.payloadBytes} bytes`,
      'a',
      'x'.repeat(bounds.payloadBytes),
      {},
    ],
    ['options is [1]; expected an object', 'a', null, [1]],
    ['option is "dealy"; expected one of id, queue, priority, delay', 'a', null, { dealy: 1 }],
    ['id is "a b"; expected 1 to 128', 'a', null, { id: 'a b' }],
    ['id is 5; expected', 'a', null, { id: 5 }],
    ['queue is ""; expected', 'a', null, { queue: '' }],
    ['priority is "urgent"; expected one of critical, high, default, low', 'a', null, { priority: 'urgent' }],
    [`delay is -1; expected a whole number from 0 to ${bounds.delay}`, 'a', null, { delay: -1 }],
    ['delay is "5s"; expected', 'a', null, { delay: '5s' }],
    ['runAt is "tomorrow"; expected epoch milliseconds', 'a', null, { runAt: 'tomorrow' }],
    ['runAt is "2030-02-31"; expected', 'a', null, { runAt: '2030-02-31' }],
    ['runAt is "2999-01-01"; expected', 'a', null, { runAt: '2999-01-01' }],
    ['runAt is 5; expected either delay or runAt, not both', 'a', null, { delay: 1, runAt: 5 }],
    [`maxAttempts is 0; expected a whole number from 1 to ${bounds.attempts}`, 'a', null, { maxAttempts: 0 }],
    ['maxAttempts is 1.5; expected', 'a', null, { maxAttempts: 1.5 }],
    ['maxCrashes is true; expected', 'a', null, { maxCrashes: true }],
    [`tags is "a"; expected an array of at most ${bounds.tags} strings`, 'a', null, { tags: 'a' }],
    ['tags[1] is "b c"; expected 1 to 64', 'a', null, { tags: ['a', 'b c'] }],
    [
      `metadata is ${bounds.metadataBytes + 2}; expected at most`,
      'a',
      null,
      { metadata: 'x'.repeat(bounds.metadataBytes) },
    ],
    ['group is ""; expected a text of 1 to 128', 'a', null, { group: '' }],
    ['key is "a\\nb"; expected', 'a', null, { key: 'a\nb' }],
    ['dedupe.key is true; expected', 'a', null, { dedupe: true }],
    ['dedupe.mode is "keep-last"; expected one of', 'a', null, { dedupe: { key: 'a', mode: 'keep-last' } }],
    [
      'dedupe.window is null; expected milliseconds for throttle',
      'a',
      null,
      { dedupe: { key: 'a', mode: 'throttle' } },
    ],
    ['option is "dedupe.windw"; expected', 'a', null, { dedupe: { key: 'a', windw: 1 } }],
  ])('refuses: %s', async (message, name, input, options) => {
    const refused = enqueue(name, input, options)
    await expect(refused).rejects.toThrow(`millrace: ${message}`)
    await expect(refused).rejects.toMatchObject({ code: '22023' })
  })
})
