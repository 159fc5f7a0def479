/** Limits, groups, keys and dedupe get the input as it is enqueued, typed by the definition. */
import { defineJob, type EnqueueStatus, limited, type Millrace } from 'millrace'
import { expectTypeOf } from 'vitest'
import { z } from 'zod'

declare const mill: Millrace

const withSchema = defineJob({
  name: 'with-schema',
  // The handler gets a Date, who enqueues gives a text.
  input: z.object({ tenant: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) }),
  group: (input) => {
    expectTypeOf(input).toEqualTypeOf<{ tenant: string; at: string }>()
    return input.tenant
  },
  key: ({ tenant }) => (tenant === '' ? undefined : tenant),
  keyLimit: { concurrency: 1 },
  limit: { rate: { max: 10, per: '1s', burst: 2 } },
  dedupe: { key: (input) => input.at, mode: 'debounce', window: '1s', most: '10s' },
  run: (input) => {
    expectTypeOf(input).toEqualTypeOf<{ tenant: string; at: Date }>()
    return limited('1s')
  },
})

const annotated = defineJob({
  name: 'annotated',
  group: (input: { tenant: number }) => input.tenant,
  run: (input) => {
    expectTypeOf(input).toEqualTypeOf<{ tenant: number }>()
    return 'done'
  },
})

const explicit = defineJob<{ tenant: number }, string>({
  name: 'explicit',
  group: (input) => {
    expectTypeOf(input).toEqualTypeOf<{ tenant: number }>()
    return input.tenant
  },
  run: () => 'done',
})

const job = await mill.enqueue(withSchema, { tenant: 'a', at: '2030-01-01T00:00:00Z' }, { group: 7 })
expectTypeOf(job.status).toEqualTypeOf<EnqueueStatus | undefined>()
expectTypeOf(await (await mill.enqueue(annotated, { tenant: 1 })).result()).toEqualTypeOf<string>()
expectTypeOf(await (await mill.enqueue(explicit, { tenant: 1 })).result()).toEqualTypeOf<string>()

// @ts-expect-error a mode that does not exist
await mill.enqueue(annotated, { tenant: 1 }, { dedupe: { key: 'k', mode: 'latest' } })
// @ts-expect-error a limit needs its window
await mill.definition(annotated).limit({ rate: { max: 1 } })
// @ts-expect-error a group is a text or a number
defineJob({ name: 'wrong', group: () => true, run: () => {} })
