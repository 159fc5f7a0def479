/** Adds a flow of many children, runs it, and prints what came of it. */
import { defineJob, Millrace } from 'millrace'

const [file = '', count = '0', how = 'flow'] = process.argv.slice(2)

const square = defineJob({ name: 'square', retain: 0, run: (n: number) => n * n })

function* numbers(): Generator<number> {
  for (let n = 0; n < Number(count); n++) yield n
}

/** One after the other, so that no more than a page of them is held. */
const sum = defineJob({
  name: 'sum',
  timeout: 0,
  async run(_: null, { children }) {
    let total = 0
    for await (const { result } of children(square)) total += result ?? 0
    return total
  },
})

const sumOfSteps = defineJob({
  name: 'sum-of-steps',
  timeout: 0,
  async run(_: null, { step }) {
    const squares = await step.children('squares', square, numbers(), { retain: 0 })
    return squares.reduce((total, n) => total + n, 0)
  },
})

const mill = new Millrace({ store: `sqlite:${file}`, jobs: [square, sum, sumOfSteps] })
const worker = mill.worker({ concurrency: 100, handleSignals: false })
await worker.start()

function* children() {
  for (const input of numbers()) yield { job: square, input }
}

const job =
  how === 'flow'
    ? await mill.flow({ job: sum, input: null, children: children() })
    : await mill.enqueue(sumOfSteps, null)
const total = await job.result()
const { states } = await mill.stats()
await mill.close()
process.stdout.write(JSON.stringify({ total, left: states.pending + states.running + states.blocked }))
