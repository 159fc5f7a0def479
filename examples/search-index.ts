// A document is saved with every keystroke, and indexed once, when its author pauses.
import { defineJob } from 'millrace'
import { TestMill } from 'millrace/testing'

const indexed: string[] = []
const index = defineJob({
  name: 'index',
  // The last text wins; it is indexed two seconds after the last save, or ten seconds after the first.
  dedupe: { key: (doc: { id: string; text: string }) => doc.id, mode: 'debounce', window: '2s', most: '10s' },
  run: ({ id, text }: { id: string; text: string }) => void indexed.push(`${id}: ${text}`),
})

// Virtual time, so that seconds take no time here. In production: new Millrace({ store: 'sqlite:jobs.db', … }).
const mill = new TestMill({ jobs: [index] })

for (const text of ['s', 'se', 'sea', 'search']) {
  const job = await mill.enqueue(index, { id: 'doc-1', text })
  console.log(`saved '${text}': ${job.status}`)
  await mill.advance('1s')
}
console.log(`indexed so far: ${indexed.length}`)
await mill.advance('1s')
console.log(`after two quiet seconds: ${indexed}`)

for (let second = 0; second < 20; second++) {
  await mill.enqueue(index, { id: 'doc-2', text: `draft ${second}` })
  await mill.advance('1s')
}
console.log(`never a pause: ${indexed.slice(1)}`)

// Other rules, for one enqueue: the first wins for a minute, whatever became of it.
const once = { key: 'doc-3', mode: 'throttle', window: '1m' } as const
const first = await mill.enqueue(index, { id: 'doc-3', text: 'one' }, { dedupe: once })
const second = await mill.enqueue(index, { id: 'doc-3', text: 'two' }, { dedupe: once })
console.log(`throttle: ${first.status}, ${second.status}; the same job stands: ${first.id === second.id}`)
await mill.close()
