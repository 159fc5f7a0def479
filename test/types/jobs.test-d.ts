/** Checked by the compiler: types follow the definition everywhere. */
import { defineJob, type JobHandle, Millrace } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

const sendEmail = defineJob({
  name: 'send-email',
  input: z.object({ to: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) }),
  async run(input, { attempt, signal, progress, enqueue }) {
    same<typeof input, { to: string; at: Date }>(true)
    same<typeof attempt, number>(true)
    same<typeof signal, AbortSignal>(true)
    progress({ half: true })
    await enqueue(count, 3)
    // @ts-expect-error the other job takes a number
    await enqueue(count, 'three')
    return { messageId: 'x' }
  },
})

const count = defineJob({ name: 'count', run: (n: number) => n + 1 })

export async function typesFollow(mill: Millrace): Promise<void> {
  const job = await mill.enqueue(sendEmail, { to: 'a', at: '2030-01-01T00:00:00Z' })
  same<typeof job, JobHandle<{ messageId: string }>>(true)
  const result = await job.result()
  same<typeof result, { messageId: string }>(true)
  // @ts-expect-error the input before the transform is text
  await mill.enqueue(sendEmail, { to: 'a', at: new Date() })
  // @ts-expect-error a field is missing
  await mill.enqueue(sendEmail, { to: 'a' })
  // @ts-expect-error not a priority
  await mill.enqueue(count, 1, { priority: 'urgent' })
  const many = await mill.enqueueMany(count, [1, 2, 3])
  same<Awaited<ReturnType<(typeof many)[0]['result']>>, number>(true)
  // @ts-expect-error one of them is text
  await mill.enqueueMany(count, [1, 'two'])
  const found = mill.job('id', count)
  same<Awaited<ReturnType<typeof found.result>>, number>(true)
  mill.on('completed', (event) => same<typeof event.ran, number>(true))
  mill.on('dead', (event) => same<typeof event.failure.message, string>(true))
  // @ts-expect-error no such event
  mill.on('finished', () => {})
}

export async function testKitFollows(mill: TestMill): Promise<void> {
  const [first] = await mill.enqueued(sendEmail)
  same<NonNullable<typeof first>['input'], { to: string; at: string }>(true)
}

export const mill = new Millrace({ store: 'memory:', jobs: [sendEmail, count] })
