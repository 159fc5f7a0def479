import { defineJob, isMillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { input, report } from './hourly.js'
import { testMill } from './mill.js'

describe('what is refused, before anything is written', () => {
  const strict = defineJob({ name: 'strict', input: z.object({ n: z.number() }), run: () => {} })
  const debounced = defineJob<null>({
    name: 'debounced',
    dedupe: { key: () => 'k', mode: 'debounce', window: '1m' },
    run: () => {},
  })
  const ok = { every: '1h', job: report, input }
  const cases: [string, string, object, object][] = [
    ['an empty name', '', ok, { code: 'INVALID_OPTION', field: 'schedule' }],
    ['a name with a colon', 'a:b', ok, { code: 'INVALID_OPTION', field: 'schedule' }],
    ['a long name', 'x'.repeat(91), ok, { code: 'INVALID_OPTION', field: 'schedule', limit: 90 }],
    ['a misspelt option', 's', { ...ok, catchup: 'all' }, { code: 'INVALID_OPTION', field: 'catchup' }],
    ['another catchUp', 's', { ...ok, catchUp: 'some' }, { code: 'INVALID_OPTION', field: 'catchUp' }],
    ['a wrong jitter', 's', { ...ok, jitter: -1 }, { code: 'INVALID_DELAY', field: 'jitter' }],
    ['a limit of none', 's', { ...ok, limit: 0 }, { code: 'INVALID_OPTION', field: 'limit' }],
    ['an unknown zone', 's', { ...ok, every: undefined, cron: '* * * * *', tz: 'X/Y' }, { field: 'tz' }],
    ['six fields', 's', { ...ok, every: undefined, cron: '* * * * * *' }, { field: 'cron' }],
    ['no definition', 's', { ...ok, job: { name: 'report' } }, { code: 'INVALID_OPTION', field: 'job' }],
    [
      'an input its schema refuses',
      's',
      { ...ok, job: strict, input: { n: 'x' } },
      { code: 'INVALID_INPUT' },
    ],
    ['an input that cannot be kept', 's', { ...ok, input: () => {} }, { code: 'PAYLOAD_NOT_SERIALISABLE' }],
    ['an id', 's', { ...ok, options: { id: 'x' } }, { code: 'INVALID_OPTION', field: 'options.id' }],
    ['a delay', 's', { ...ok, options: { delay: 5 } }, { code: 'INVALID_OPTION', field: 'options.delay' }],
    ['a wrong queue', 's', { ...ok, options: { queue: '' } }, { code: 'INVALID_OPTION', field: 'queue' }],
    [
      'jitter of jobs that decide themselves when they start',
      's',
      { ...ok, job: debounced, input: null, jitter: '1m' },
      { code: 'INVALID_OPTION', field: 'dedupe.mode' },
    ],
  ]
  test.for(cases)('%s', async ([, name, options, expected]) => {
    const mill = testMill()
    const error = await mill.schedule(name, options as never).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(isMillraceError(error)).toBe(true)
    expect(error).toMatchObject(expected)
    expect((await mill.schedules()).schedules).toEqual([])
  })
})
