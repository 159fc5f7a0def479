/** Checked by the compiler: jobs that wait for others keep their types. */
import {
  type Child,
  defineJob,
  type Failure,
  type JobDefinition,
  type JobHandle,
  type Millrace,
} from 'millrace'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

const chunk = defineJob({ name: 'chunk', run: (page: { from: number }) => [`row ${page.from}`] })
const count = defineJob({ name: 'count', run: (text: string) => text.length })
const undoChunk = defineJob<{ input: { from: number }; result: string[] }>({ name: 'undo', run: () => {} })
const undoCount = defineJob<{ input: string; result: number }>({ name: 'undo-count', run: () => {} })
const merge = defineJob({
  name: 'merge',
  async run(_: null, { children, results, resultOf, step }) {
    const rows = await results(chunk)
    same<typeof rows, string[][]>(true)
    const length = await resultOf(count, 'length')
    same<typeof length, number>(true)
    for await (const child of children(count)) same<typeof child.result, number | undefined>(true)
    for await (const child of children()) same<typeof child.result, unknown>(true)
    for await (const child of children(count)) {
      if (child.state === 'completed') same<typeof child.result, number>(true)
      else same<typeof child.result, undefined>(true)
      if (child.state === 'dead') same<typeof child.failure, Failure>(true)
      if (child.state === 'cancelled') same<typeof child.failure, Failure | undefined>(true)
    }

    const lengths = await step.children('lengths', count, ['a'])
    same<typeof lengths, number[]>(true)
    const some = await step.children('some', count, ['a'], { onFailure: 'ignore' })
    same<typeof some, number[]>(true)
    const all = await step.children('all', count, ['a'], { onFailure: 'continue', queue: 'q' })
    same<typeof all, Child<number>[]>(true)
    // @ts-expect-error the input of another job
    await step.children('wrong', count, [1])
    // @ts-expect-error what a step's children mean is not undone
    await step.children('wrong', count, ['a'], { onFailure: 'compensate' })
    // @ts-expect-error a child's time is its parent's
    await step.children('wrong', count, ['a'], { delay: 5 })
    return { rows, length }
  },
})

export async function trees(mill: Millrace): Promise<void> {
  const tree = await mill.flow({
    job: merge,
    input: null,
    children: [
      { job: chunk, input: { from: 0 }, compensate: undoChunk, onFailure: 'compensate' },
      {
        job: count,
        input: 'x',
        options: { priority: 'low' },
        children: [{ job: chunk, input: { from: 1 } }],
      },
    ],
  })
  same<typeof tree, JobHandle<{ rows: string[][]; length: number }>>(true)
  const many = [1, 2].map((from) => ({ job: chunk, input: { from } }))
  await mill.flow({ job: merge, input: null, children: many })
  // @ts-expect-error the input of another job
  await mill.flow({ job: count, input: 5 })
  // @ts-expect-error a child's input
  await mill.flow({ job: merge, input: null, children: [{ job: chunk, input: 'x' }] })
  const deep = [{ job: count, input: 1 }]
  // @ts-expect-error a grandchild's input
  await mill.flow({ job: merge, input: null, children: [{ job: count, input: 'x', children: deep }] })
  // @ts-expect-error no input
  await mill.flow({ job: count })
  await mill.flow({
    job: merge,
    input: null,
    // @ts-expect-error what undoes another job
    children: [{ job: chunk, input: { from: 1 }, compensate: undoCount }],
  })
  // @ts-expect-error no such policy
  await mill.flow({ job: merge, input: null, children: [{ job: count, input: 'x', onFailure: 'panic' }] })
  // @ts-expect-error its place in time is the flow's to say
  await mill.flow({ job: count, input: 'x', options: { delay: 5 } })
}

/** Children as people make them. */
export async function shapes(mill: Millrace, isLong: boolean): Promise<void> {
  const parent = { job: merge, input: null }
  const part = { job: chunk, input: { from: 0 } }
  const word = { job: count, input: 'x' }
  const list: readonly (typeof word)[] = []
  await mill.flow({ ...parent, children: list })
  await mill.flow({ ...parent, children: [part, word] })
  await mill.flow({ ...parent, children: new Set([part]) })
  await mill.flow({ ...parent, children: mixed() })
  await mill.flow({ ...parent, children: [1, 2].flatMap((from) => [{ job: chunk, input: { from } }, word]) })
  await mill.flow({ ...parent, children: [1].map(() => ({ ...parent, children: [part] })) })
  await mill.flow({ ...parent, children: [part, ...(isLong ? [word] : [])] })
  await mill.flow({ ...parent, ...(isLong && { children: [part] }) })
  await mill.flow({
    ...parent,
    children: [
      { job: either, input: undefined },
      { job: either, input: {} },
    ],
  })
  const tree: Tree = { ...part, children: [part] }
  await mill.flow(tree)

  const numbered = Object.fromEntries([1, 2].map((from) => [`part${from}`, { job: chunk, input: { from } }]))
  await mill.flow({ nodes: numbered })
  await mill.flow({ nodes: { ...numbered, last: { ...parent, after: Object.keys(numbered) } } })
  const chunks = await mill.chain([1, 2].map((from) => ({ job: chunk, input: { from } })))
  same<typeof chunks, JobHandle<string[]>>(true)
  const some = await mill.chain([part, ...(isLong ? [word] : [])])
  same<typeof some, JobHandle<string[] | number>>(true)
}

const either = defineJob({ name: 'either', run: (options?: { fast?: boolean }) => options?.fast })

function* mixed() {
  yield { job: count, input: 'x' }
  yield { job: chunk, input: { from: 1 } }
}

interface Tree {
  job: typeof chunk
  input: { from: number }
  children?: Tree[]
}

/** A definition and its inputs need not be known here. */
export function fan<I, R>(mill: Millrace, job: JobDefinition<I, I, R>, inputs: I[]): Promise<JobHandle> {
  return mill.flow({ job: merge, input: null, children: inputs.map((input) => ({ job, input })) })
}

export async function mistakes(mill: Millrace): Promise<void> {
  const word = { job: count, input: 'x' }
  // @ts-expect-error children
  await mill.flow({ job: merge, input: null, childen: [word] })
  // @ts-expect-error the same, further below
  await mill.flow({ job: merge, input: null, children: [{ ...word, childen: [word] }] })
  // @ts-expect-error the same, of each of many
  await mill.flow({ job: merge, input: null, children: [1].map(() => ({ ...word, childen: [word] })) })
  // @ts-expect-error onFailure
  await mill.flow({ job: merge, input: null, children: [{ ...word, onFail: 'ignore' }] })
  // @ts-expect-error a tree has children instead
  await mill.flow({ job: count, input: 'x', after: [] })
  // @ts-expect-error a graph has `after` instead
  await mill.flow({ nodes: { first: { job: count, input: 'x', children: [] } } })
  // @ts-expect-error after
  await mill.flow({ nodes: { first: word, last: { ...word, afer: ['first'] } } })
  // @ts-expect-error an option
  await mill.flow({ nodes: { first: word }, id: 'f' })
  // @ts-expect-error in a chain each waits for the one before it
  await mill.chain([word, { ...word, after: [] }])
  // @ts-expect-error it needs an input
  await mill.flow({ job: count, input: undefined })
  // @ts-expect-error the same
  await mill.flow({ job: merge, input: null, children: [1].map(() => ({ job: count, input: undefined })) })
  // @ts-expect-error the same
  await mill.flow({ nodes: { first: { job: count, input: undefined } } })
  // @ts-expect-error the same
  await mill.chain([{ job: count, input: undefined }])
}

export async function graphs(mill: Millrace): Promise<void> {
  await mill.flow({
    nodes: {
      first: { job: chunk, input: { from: 0 }, compensate: undoChunk },
      length: { job: count, input: 'x' },
      last: { job: merge, input: null, after: ['first', 'length'] },
    },
  })
  await mill.flow({
    // @ts-expect-error nobody of that name
    nodes: { first: { job: count, input: 'x' }, last: { job: merge, input: null, after: ['second'] } },
  })
  await mill.flow({
    // @ts-expect-error itself
    nodes: { first: { job: count, input: 'x' }, last: { job: merge, input: null, after: ['last'] } },
  })
  // @ts-expect-error the input of another job
  await mill.flow({ nodes: { first: { job: count, input: { from: 1 } } } })
  // @ts-expect-error what undoes another job
  await mill.flow({ nodes: { first: { job: count, input: 'x', compensate: undoChunk } } })
}

export async function chains(mill: Millrace): Promise<void> {
  const chain = await mill.chain([
    { job: chunk, input: { from: 0 }, compensate: undoChunk },
    { job: count, input: 'x' },
  ])
  same<typeof chain, JobHandle<number>>(true)
  same<Awaited<ReturnType<typeof chain.result>>, number>(true)
  const first = { job: chunk, input: { from: 0 } }
  // @ts-expect-error the input of another job
  await mill.chain([first, { job: count, input: 5 }])
  // @ts-expect-error a link has no children: it waits for the one before it
  await mill.chain([{ job: count, input: 'x', children: [{ job: count, input: 'x' }] }])
}

export async function batches(mill: Millrace): Promise<void> {
  const batch = await mill.batch({
    onComplete: { job: count, input: 'done' },
    onSuccess: { job: chunk, input: { from: 0 } },
    onDead: { job: count, input: 'dead', options: { queue: 'alarm' } },
  })
  const job = await batch.enqueue(count, 'x')
  same<typeof job, JobHandle<number>>(true)
  const jobs = await batch.enqueueMany(chunk, [{ from: 1 }])
  same<typeof jobs, JobHandle<string[]>[]>(true)
  // @ts-expect-error the input of another job
  await mill.batch({ onComplete: { job: count, input: 5 } })
  // @ts-expect-error the same
  await mill.batch({ onSuccess: { job: chunk, input: 'x' } })
  // @ts-expect-error the same
  await mill.batch({ onDead: { job: chunk, input: {} } })
  // @ts-expect-error the same
  await batch.enqueue(count, 5)
  // @ts-expect-error the same
  await batch.enqueueMany(count, [5])
}
