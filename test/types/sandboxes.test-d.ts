/** Checked by the compiler: a handler in a module of its own is as typed as one beside its definition. */
import { defineHandler, defineJob, fromModule, type JobDefinition, type Millrace } from 'millrace'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

type Resize = typeof import('./resize.job.js')
const url = new URL('./resize.job.js', import.meta.url)

const resize = defineJob({
  name: 'resize',
  input: z.object({ path: z.string(), width: z.string().transform(Number) }),
  run: fromModule<Resize>(url),
  sandbox: { type: 'process', memory: 256 },
})
same<
  typeof resize,
  JobDefinition<{ path: string; width: string }, { path: string; width: number }, { bytes: number }>
>(true)

const plain = defineJob({ name: 'plain', run: fromModule<Resize>(url) })
same<
  typeof plain,
  JobDefinition<Parameters<Resize['default']>[0], Parameters<Resize['default']>[0], { bytes: number }>
>(true)

const measure = defineJob({ name: 'measure', run: fromModule<Resize, 'measure'>(url, 'measure') })
same<typeof measure, JobDefinition<string, string, number>>(true)

const byHand = defineJob<{ n: number }, string>({ name: 'by-hand', run: url })
same<typeof byHand, JobDefinition<{ n: number }, { n: number }, string>>(true)

const noWidth = z.object({ path: z.string() })
// @ts-expect-error the module wants a width too
defineJob({ name: 'wrong', input: noWidth, run: fromModule<Resize>(url) })
// @ts-expect-error the name of the export is missing
fromModule<Resize, 'measure'>(url)
// @ts-expect-error not a handler
fromModule<Resize, 'notAHandler'>(url, 'notAHandler')
// @ts-expect-error no such export
fromModule<Resize, 'nothing'>(url, 'nothing')
// @ts-expect-error not a kind of sandbox
defineJob({ name: 'wrong', run: url, sandbox: { type: 'vm' } })

export const typed = defineHandler((input: number, { attempt, enqueue }) => {
  same<typeof attempt, number>(true)
  // @ts-expect-error the other job takes text
  void enqueue(measure, input)
  return input + attempt
})

export async function typesFollow(mill: Millrace): Promise<void> {
  const job = await mill.enqueue(resize, { path: 'a', width: '7' })
  same<Awaited<ReturnType<typeof job.result>>, { bytes: number }>(true)
  // @ts-expect-error the width before the transform is text
  await mill.enqueue(resize, { path: 'a', width: 7 })
}
