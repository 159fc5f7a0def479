/** Checked by the compiler: a batch job is typed by its single jobs. */
import {
  type BatchOutcome,
  cancel,
  defineBatchJob,
  type JobContext,
  type JobDefinition,
  limited,
  type Millrace,
  snooze,
} from 'millrace'
import { type RunJobResult, runBatch } from 'millrace/testing'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

const insert = defineBatchJob({
  name: 'insert',
  input: z.object({ table: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) }),
  batch: {
    size: 100,
    wait: '50ms',
    // As it was enqueued, like `key` and `group`.
    by: (input) => {
      same<typeof input, { table: string; at: string }>(true)
      return input.table
    },
  },
  group: ({ table }) => table,
  async run(inputs, { jobs, size, signal }) {
    same<typeof inputs, { table: string; at: Date }[]>(true)
    same<typeof jobs, readonly JobContext[]>(true)
    same<typeof size, number>(true)
    same<typeof signal, AbortSignal>(true)
    return inputs.map(({ at }, i) => {
      if (i === 0) return new TypeError('refused')
      if (i === 1) return snooze('1m')
      if (i === 2) return cancel('gone')
      return at.getTime()
    })
  },
})

/** Errors and directives are no results, whatever their class. */
same<typeof insert, JobDefinition<{ table: string; at: string }, { table: string; at: Date }, number>>(true)

const silent = defineBatchJob({ name: 'silent', run: async (_: string[]) => {} })
same<typeof silent, JobDefinition<string, string, void>>(true)

const told = defineBatchJob<string, { name: string; message: string }>({
  name: 'told',
  run: (inputs) => inputs.map((name) => ({ name, message: 'a result that looks like an error is one' })),
})
same<typeof told, JobDefinition<string, string, { name: string; message: string }>>(true)

const busy = defineBatchJob({
  name: 'busy',
  run: (inputs: number[]) => (inputs.length > 3 ? limited('30s') : inputs.map(String)),
})
same<typeof busy, JobDefinition<number, number, string>>(true)

const spelled = defineBatchJob({
  name: 'spelled',
  run: (inputs: number[]): BatchOutcome<'yes' | 'no'>[] =>
    inputs.map((n) => (n > 0 ? 'yes' : new Error('no'))),
})
same<typeof spelled, JobDefinition<number, number, 'yes' | 'no'>>(true)

// @ts-expect-error one result is not an array of them
defineBatchJob({ name: 'single', run: (inputs: number[]) => inputs.length })
// @ts-expect-error the key is text or a number
defineBatchJob({ name: 'keyed', batch: { by: (input: number) => [input] }, run: (_: number[]) => {} })
// @ts-expect-error no such option
defineBatchJob({ name: 'misspelt', batch: { max: 3 }, run: (_: number[]) => {} })

export async function typesFollow(mill: Millrace): Promise<void> {
  const job = await mill.enqueue(insert, { table: 'a', at: '2030-01-01T00:00:00Z' })
  same<Awaited<ReturnType<typeof job.result>>, number>(true)
  // @ts-expect-error one job, one input
  await mill.enqueue(insert, [{ table: 'a', at: '2030-01-01T00:00:00Z' }])
  const results = await runBatch(busy, [1, 2])
  same<typeof results, RunJobResult<string>[]>(true)
  // @ts-expect-error it takes numbers
  await runBatch(busy, ['1'])
}
