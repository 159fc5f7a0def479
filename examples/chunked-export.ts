// A large export in chunks, side by side: the parent waits for all of them and merges what they gave.
import { defineJob, Millrace } from 'millrace'

interface Chunk {
  readonly from: number
  readonly to: number
}

const exportChunk = defineJob({
  name: 'export-chunk',
  backoff: { type: 'fixed', initialDelay: '20ms', jitter: 'none' },
  retain: 0, // what it gave is kept with its parent
  run({ from, to }: Chunk, { attempt }) {
    if (from === 200 && attempt === 1) throw new Error('the replica is gone')
    const lines = Array.from({ length: to - from }, (_, i) => `customer ${from + i}`)
    return { lines: lines.length, bytes: lines.join('\n').length }
  },
})

const mergeChunks = defineJob({
  name: 'merge-chunks',
  async run({ file }: { file: string }, { results }) {
    const chunks = await results(exportChunk) // { lines, bytes }[], in the order in which they were given
    const sum = (key: 'lines' | 'bytes') => chunks.reduce((total, chunk) => total + chunk[key], 0)
    return `${file}: ${sum('lines')} lines, ${sum('bytes')} bytes from ${chunks.length} chunks`
  },
})

/** Chunks may come from a generator: they are written a few hundred at a time, however many there are. */
function* chunksOf(rows: number, size: number) {
  for (let from = 0; from < rows; from += size)
    yield { job: exportChunk, input: { from, to: Math.min(from + size, rows) } }
}

const mill = new Millrace({ store: 'memory:', jobs: [exportChunk, mergeChunks] })
mill.on('failed', ({ name, attempt, failure }) =>
  console.log(`${name}: attempt ${attempt}: ${failure.message}`),
)

const flow = await mill.flow(
  { job: mergeChunks, input: { file: 'customers.csv' }, children: chunksOf(950, 100) },
  { id: 'export-7' },
)
console.log(`${await flow.state()}, behind ${(await flow.graph()).nodes.length - 1} chunks`)

await mill.worker({ concurrency: 4 }).start()
console.log(await flow.result())
await mill.close()
