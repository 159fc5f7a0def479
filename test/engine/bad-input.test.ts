/** The bad-input table: a typed error that names the field, before any write; the same on all engines. */
import {
  type ClaimedJob,
  defineJob,
  type EnqueueOptions,
  isMillraceError,
  type JobTrafficOptions,
  Millrace,
  type MillraceError,
} from 'millrace'
import { runJob } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { outcomeOf } from '../outcome.js'
import { realMill, storeOf, testMill } from './mill.js'

const any = defineJob({ name: 'any', run: (input: unknown) => input })

const circular: Record<string, unknown> = { a: {} }
;(circular.a as Record<string, unknown>).b = circular

const deep = Array.from({ length: 101 }).reduce<unknown>((inner) => ({ inner }), 1)

const badInputs: [what: string, input: unknown, code: string, field?: string][] = [
  ['a circle', circular, 'PAYLOAD_NOT_SERIALISABLE', '$.a.b'],
  ['a function', { a: { b: () => 1 } }, 'PAYLOAD_NOT_SERIALISABLE', '$.a.b'],
  ['a symbol', { a: [Symbol('x')] }, 'PAYLOAD_NOT_SERIALISABLE', '$.a[0]'],
  ['undefined at the top', undefined, 'PAYLOAD_NOT_SERIALISABLE', '$'],
  ['an instance of a class', { at: new URL('http://localhost') }, 'PAYLOAD_NOT_SERIALISABLE', '$.at'],
  ['an invalid Date', { at: new Date(Number.NaN) }, 'PAYLOAD_NOT_SERIALISABLE', '$.at'],
  ['1 MiB and one byte', 'x'.repeat(1024 * 1024 - 1), 'PAYLOAD_TOO_LARGE'],
  ['wide characters over the limit', '€'.repeat(400_000), 'PAYLOAD_TOO_LARGE'],
  ['101 levels', deep, 'PAYLOAD_TOO_LARGE'],
]

const badOptions: [what: string, options: EnqueueOptions, code: string, field: string][] = [
  ['delay NaN', { delay: Number.NaN }, 'INVALID_DELAY', 'delay'],
  ['delay negative', { delay: -1 }, 'INVALID_DELAY', 'delay'],
  ['delay nonsense', { delay: 'soon' }, 'INVALID_DELAY', 'delay'],
  ['delay over ten years', { delay: '4000d' }, 'INVALID_DELAY', 'delay'],
  ['delay infinite', { delay: Number.POSITIVE_INFINITY }, 'INVALID_DELAY', 'delay'],
  ['runAt an invalid Date', { runAt: new Date('no') }, 'INVALID_DELAY', 'runAt'],
  [
    'runAt over ten years away',
    { runAt: Date.now() + 11 * 365.25 * 86_400_000 + 5 * 365.25 * 86_400_000 },
    'INVALID_DELAY',
    'runAt',
  ],
  ['delay and runAt', { delay: 1, runAt: Date.now() }, 'INVALID_OPTION', 'runAt'],
  ['maxAttempts 0', { maxAttempts: 0 }, 'INVALID_OPTION', 'maxAttempts'],
  ['maxAttempts 1.5', { maxAttempts: 1.5 }, 'INVALID_OPTION', 'maxAttempts'],
  ['maxAttempts huge', { maxAttempts: 1e9 }, 'INVALID_OPTION', 'maxAttempts'],
  ['maxAttempts text', { maxAttempts: '3' as never }, 'INVALID_OPTION', 'maxAttempts'],
  ['timeout negative', { timeout: -5 }, 'INVALID_DELAY', 'timeout'],
  ['retain nonsense', { retain: 'forever' }, 'INVALID_DELAY', 'retain.completed'],
  ['an unknown lane', { priority: 'urgent' as never }, 'INVALID_OPTION', 'priority'],
  ['an unknown option', { prioritty: 'high' } as never, 'INVALID_OPTION', 'prioritty'],
  ['a backoff of an unknown type', { backoff: { type: 'wild' as never } }, 'INVALID_OPTION', 'backoff.type'],
  [
    'a function as backoff of one job',
    { backoff: { type: 'custom', delay: () => 1 } as never },
    'INVALID_OPTION',
    'backoff',
  ],
  ['jitter over 100 %', { backoff: { jitter: 101 } }, 'INVALID_OPTION', 'backoff.jitter'],
  ['too many tags', { tags: Array.from({ length: 17 }, (_, i) => `t${i}`) }, 'INVALID_OPTION', 'tags'],
  ['a tag with a newline', { tags: ['a\nb'] }, 'INVALID_OPTION', 'tags[0]'],
  ['metadata too large', { metadata: 'x'.repeat(20_000) }, 'PAYLOAD_TOO_LARGE', 'metadata'],
  ...['', 'a b', 'a\nb', 'x'.repeat(129), '{a}', 'a*', 'ü', '💥', "a'b", 'x'.repeat(10_000)].map(
    (id): [string, EnqueueOptions, string, string] => [
      `id ${JSON.stringify(id).slice(0, 20)}`,
      { id },
      'INVALID_OPTION',
      'id',
    ],
  ),
]

const badNames = [
  '',
  ':',
  'a:b',
  '{a}',
  'a*',
  'a b',
  '"a"',
  "a'b",
  '..',
  'a..b',
  '../a',
  'a\nb',
  '💥',
  'x'.repeat(129),
  'x'.repeat(10_000),
  '.a',
  '-a',
]

async function refusal(attempt: () => unknown): Promise<MillraceError> {
  try {
    await attempt()
  } catch (error) {
    if (isMillraceError(error)) return error
    throw error
  }
  throw new Error('was not refused')
}

describe('bad input', () => {
  test.each(badInputs)('%s', async (_what, input, code, field) => {
    const mill = testMill({ jobs: [any] })
    for (const attempt of [() => mill.enqueue(any, input), () => mill.enqueueMany(any, [1, input])]) {
      const error = await refusal(attempt)
      expect(error.code).toBe(code)
      if (field !== undefined) expect(error.field).toBe(field)
      if (code === 'PAYLOAD_TOO_LARGE')
        expect(error).toMatchObject({ limit: expect.anything(), value: expect.anything() })
    }
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })

  test.each(badOptions)('%s', async (_what, options, code, field) => {
    const mill = testMill({ jobs: [any] })
    expect(await refusal(() => mill.enqueue(any, 1, options))).toMatchObject({ code, field })
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })

  test.each(badNames.map((name) => [name.slice(0, 20), name]))('the name %j', async (_short, name) => {
    const mill = testMill({ jobs: [any] })
    for (const attempt of [
      () => defineJob({ name, run: () => 1 }),
      () => defineJob({ name: 'ok', queue: name, run: () => 1 }),
      () => mill.queue(name),
      () => mill.worker({ queues: [name] }),
      () => mill.enqueue(any, 1, { queue: name }),
    ]) {
      expect((await refusal(attempt)).code).toBe('INVALID_OPTION')
    }
  })

  test.each([
    ['concurrency', 0],
    ['concurrency', 1.5],
    ['concurrency', -1],
    ['concurrency', 1e9],
    ['prefetch', -1],
    ['lease', 10],
    ['grace', 'a while'],
    ['concurency', 5],
  ])('worker option %s: %s', async (field, value) => {
    const mill = testMill({ jobs: [any] })
    expect((await refusal(() => mill.worker({ [field]: value }))).field).toBe(field)
  })

  test.each<[string, (mill: Millrace) => Promise<void>, string]>([
    ["a queue's limit", (mill) => mill.queue('main').limit({ concurrency: 0 }), 'limit.concurrency'],
    ["a queue's limit of groups", (mill) => mill.queue('main').groupLimit({}), 'groupLimit'],
    ["a queue's depth", (mill) => mill.queue('main').depthLimit({ max: 0 }), 'depth.max'],
    [
      "a definition's limit",
      (mill) => mill.definition('work').limit({ concurrency: 0.5 }),
      'limit.concurrency',
    ],
    ["a definition's limit of keys", (mill) => mill.definition('work').keyLimit({}), 'keyLimit'],
    ["a group's limit", (mill) => mill.queue('main').group('a').limit({}), 'limit'],
    ["a group's weight", (mill) => mill.queue('main').group('a').weight(0), 'weight'],
  ])('%s rejects, and does not throw', async (_what, set, field) => {
    const mill = testMill()
    await expect(set(mill)).rejects.toMatchObject({ code: 'INVALID_OPTION', field })
  })

  const broken = (input: { tenant: { id: string } }) => input.tenant.id
  const late = async () => Promise.reject(new Error('nobody hears of this'))
  test.each<[string, (ask: never) => JobTrafficOptions<unknown>]>([
    ['group', (group) => ({ group })],
    ['key', (key) => ({ key })],
    ['dedupe.key', (key) => ({ dedupe: { key } })],
    ['dedupe.key', (key) => ({ dedupe: { key, mode: 'keep-last' } })],
  ])('a function for %s that throws or returns a promise', async (field, flow) => {
    const throwing = defineJob({ name: 'odd', ...flow(broken as never), run: () => {} })
    const promising = defineJob({ name: 'odd', ...flow(late as never), run: () => {} })
    const mill = testMill()
    for (const attempt of [() => mill.enqueue(throwing, {}), () => mill.enqueueMany(throwing, [{}])]) {
      const error = await refusal(attempt)
      expect(error).toMatchObject({ code: 'INVALID_OPTION', field, cause: expect.any(TypeError) })
      expect(error.message).toMatch(`${field} of job 'odd' threw 'Cannot read`)
    }
    const error = await refusal(() => mill.enqueue(promising, {}))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', field })
    expect(error.message).toMatch(`${field} of job 'odd' returned a promise`)
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })

  test.each([[undefined], [null], [{}]])('%s for a definition', async (job) => {
    const adds = defineJob({ name: 'adds', run: (_: unknown, { enqueue }) => enqueue(job as never, 1) })
    expect((await runJob(adds, null)).failure).toMatchObject({ code: 'INVALID_OPTION' })
    const mill = testMill()
    for (const attempt of [
      () => mill.definition(job as never),
      () => mill.enqueue(job as never, 1),
      () => mill.enqueueMany(job as never, [1]),
    ])
      expect(await refusal(attempt)).toMatchObject({ code: 'INVALID_OPTION', field: 'job', value: job })
  })

  test.each<[field: string, queue: object]>([
    ['queues.a.lmit', { lmit: {} }],
    ['queues.a.limit.concurency', { limit: { concurency: 1 } }],
    ['queues.a.limit.rate.bust', { limit: { rate: { max: 1, per: '1s', bust: 1 } } }],
    ['queues.a.depth', { depth: 5 }],
    ['queues.a.depth.max', { depth: { max: 0 } }],
    ['queues.a.depth.low', { depth: { max: 5, low: 6 } }],
    ['queues.a.depth.mx', { depth: { max: 5, mx: 6 } }],
    ['queues.a.depth.overflow', { depth: { max: 5, overflow: 'drop' } }],
    ['queues.a.depth.defer', { depth: { max: 5, overflow: 'shed', defer: -1 } }],
    ['queues.a.depth.lanes.low', { depth: { max: 5, lanes: { low: 0 } } }],
    ['queues.a.depth.lanes.lo', { depth: { max: 5, lanes: { lo: 4 } } }],
    ['queues.a.depth.shedAt.lo', { depth: { max: 5, overflow: 'shed', shedAt: { lo: 1 } } }],
  ])('%s of the options', async (field, queue) => {
    const error = await refusal(() => new Millrace({ store: 'memory:', queues: { a: queue as never } }))
    expect(error.field).toBe(field)
  })

  test('a misspelt option gets a hint', async () => {
    const error = await refusal(() => testMill({ jobs: [any] }).worker({ concurency: 5 } as never))
    expect(error.message).toContain("did you mean 'concurrency'?")
  })

  test('a schema refuses before anything is written', async () => {
    const mail = defineJob({ name: 'mail', input: z.object({ to: z.string().min(3) }), run: () => null })
    const mill = testMill({ jobs: [mail] })
    const error = await refusal(() => mill.enqueueMany(mail, [{ to: 'abc' }, { to: 'x' }]))
    expect(error).toMatchObject({ code: 'INVALID_INPUT', field: '$.to' })
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })

  test('values beyond JSON are kept exactly', async () => {
    const values = {
      big: 12345678901234567890n,
      date: new Date('2030-02-03T04:05:06.789Z'),
      map: new Map<unknown, unknown>([
        ['a', 1n],
        [{ k: 1 }, new Set([1, 'x'])],
      ]),
      bytes: new Uint8Array([0, 255, 7]),
      numbers: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1e308],
      holes: [undefined, 1],
      text: 'NUL \0, a lone \uD800, an emoji 💥, "quotes" and \\',
      own: JSON.parse('{"__proto__": {"x": 1}, "constructor": 2, "$millrace": ["date", "x"]}') as object,
    }
    const mill = testMill({ jobs: [any] })
    const job = await mill.enqueue(any, values)
    await mill.drain()
    const result = await job.result()
    expect(result).toEqual(values)
    expect(Object.keys((result as typeof values).own)).toEqual(['__proto__', 'constructor', '$millrace'])
    expect((await job.get())?.input).toEqual(values)
  })

  const thrown: [string, unknown][] = [
    ['null', null],
    ['undefined', undefined],
    ['a string', 'just text'],
    ['a number', 42],
    ['a symbol', Symbol('odd')],
    ['a cyclic cause', cyclicCause()],
    ['a huge stack', Object.assign(new Error('big'), { stack: 'x'.repeat(1_000_000) })],
    ['a huge message', new Error('m'.repeat(1_000_000))],
    ['NUL and lone surrogates', new Error('a\0b\uD800c')],
    ['hostile getters', hostile()],
    ['a frozen object', Object.freeze({ message: 'cold' })],
  ]

  test.each(thrown)('a handler throws %s', async (_what, value) => {
    const bad = defineJob({
      name: 'bad',
      maxAttempts: 1,
      run: () => {
        throw value
      },
    })
    const mill = testMill({ jobs: [bad] })
    const job = await mill.enqueue(bad, {})
    await mill.drain()
    const snapshot = await job.get()
    expect(snapshot?.state).toBe('dead')
    const text = (snapshot?.failure?.message ?? '') + (snapshot?.failure?.stack ?? '')
    expect(text.length).toBeLessThanOrEqual(16 * 1024)
    expect(text.isWellFormed() && !text.includes('\0')).toBe(true)
  })

  test.each([
    ['a circle', () => circular, 'PAYLOAD_NOT_SERIALISABLE'],
    ['a function', () => ({ f: () => 1 }), 'PAYLOAD_NOT_SERIALISABLE'],
    ['too much', () => 'x'.repeat(2 ** 21), 'PAYLOAD_TOO_LARGE'],
  ])('a handler returns %s: dead, not retried', async (_what, run, code) => {
    const bad = defineJob({ name: 'bad', run: run as () => unknown })
    const mill = testMill({ jobs: [bad] })
    const job = await mill.enqueue(bad, {})
    await mill.drain()
    expect(await job.get()).toMatchObject({ state: 'dead', attempt: 1, failure: { code } })
  })

  test.each([
    ['null', null],
    ['undefined', undefined],
    ['false', false],
    ['0', 0],
    ['an empty text', ''],
  ])('a handler returns %s: completed', async (_what, value) => {
    const fine = defineJob({ name: 'fine', run: () => value })
    const mill = testMill({ jobs: [fine] })
    const job = await mill.enqueue(fine, {})
    await mill.drain()
    expect(await job.result()).toBe(value)
  })

  test('custom backoff that throws or is nonsense kills the job cleanly', async () => {
    const jobs = [
      () => -5,
      () => 'soon',
      () => {
        throw new Error('no')
      },
    ].map((delay, i) =>
      defineJob({
        name: `odd-${i}`,
        backoff: { type: 'custom', delay: delay as () => number },
        run: () => {
          throw new Error('first')
        },
      }),
    )
    const mill = testMill({ jobs })
    const handles = await Promise.all(jobs.map((job) => mill.enqueue(job, {})))
    await mill.drain()
    for (const handle of handles) expect(await handle.state()).toBe('dead')
  })

  test('retry of a removed job, and of one that runs', async () => {
    const mill = testMill({ jobs: [any] })
    expect(await refusal(() => mill.dead.retry('nobody'))).toMatchObject({ code: 'JOB_NOT_FOUND' })
    const job = await mill.enqueue(any, 1)
    expect(await refusal(() => mill.dead.retry(job.id))).toMatchObject({ code: 'JOB_NOT_FINISHED' })
    expect(await refusal(() => mill.job('nobody').cancel())).toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect(await refusal(() => mill.job('nobody').state())).toMatchObject({ code: 'JOB_NOT_FOUND' })
  })

  test('settling twice is refused by the store', async () => {
    const mill = testMill({ jobs: [any] })
    await mill.enqueue(any, 1)
    const store = storeOf(mill)
    const claim = {
      token: 't1',
      lease: 1000,
      room: { shared: 1, own: [0, 0, 0, 0] },
      picks: [{ queue: 'default', lane: 2, take: 1 }],
      turn: 0,
    }
    const { claimed } = await store.exchange({ worker: 'w', settlements: [], claim })
    const { id, token } = claimed[0] as ClaimedJob
    const outcome = outcomeOf({ to: 'completed', retain: 1000 })
    const settle = () =>
      store.exchange({
        worker: 'w',
        settlements: [{ id, token, outcome, inserts: undefined }],
        claim: undefined,
      })
    expect((await settle()).settled).toEqual(['applied'])
    expect((await settle()).settled).toEqual(['lost'])
  })

  test('stores that cannot be', async () => {
    for (const store of ['', 'file.db', 'mysql://x', 'sqlite:', {}, null]) {
      expect((await refusal(() => new Millrace({ store: store as never }))).code).toBe('INVALID_OPTION')
    }
  })

  test('after close every call says so', async () => {
    const mill = realMill({ jobs: [any] })
    const job = await mill.enqueue(any, 1)
    const waiting = job.result()
    await mill.close()
    for (const attempt of [
      () => waiting,
      () => mill.enqueue(any, 1),
      () => job.state(),
      () => mill.stats(),
      () => mill.worker(),
    ]) {
      expect((await refusal(attempt)).code).toBe('CLOSED')
    }
  })
})

function cyclicCause(): Error {
  const error = new Error('outer', { cause: new Error('inner') })
  ;(error.cause as Error).cause = error
  return error
}

function hostile(): unknown {
  return new Proxy(
    {},
    {
      get() {
        throw new Error('gotcha')
      },
      ownKeys() {
        throw new Error('gotcha')
      },
    },
  )
}
