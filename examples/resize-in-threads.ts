// Work for the processor, in threads: the worker stays responsive, and what never ends is ended.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { defineJob, fromModule, isMillraceError, Millrace } from 'millrace'
import { runJob } from 'millrace/testing'

const resize = defineJob({
  name: 'resize',
  maxAttempts: 1,
  // Typed by the module, which is not loaded here but where it runs.
  run: fromModule<typeof import('./resize.job.js')>(new URL('./resize.job.js', import.meta.url)),
  sandbox: { type: 'thread', memory: 128 }, // 'process' also survives process.abort() and crashes of native code
})

const photo = { width: 1600, height: 1200, by: 8 }

// What the same handler does to an event loop that it shares.
const before = performance.now()
await runJob(resize, { photo: 'here', ...photo })
console.log(`in this process: nothing else could run for ${Math.round(performance.now() - before)} ms`)

const mill = new Millrace({ store: 'memory:', jobs: [resize] })
const worker = mill.worker({ sandbox: { size: 2 } })
await worker.start()

const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
const started = performance.now()
const names = ['hill', 'lake', 'wood', 'road', 'roof', 'boat']
const photos = await Promise.all(
  names.map((name) => mill.enqueue(resize, { photo: name, ...photo }, { id: name })),
)
// Its handler never returns. In this process, that would be the end of it.
const broken = await mill.enqueue(resize, { photo: 'broken', ...photo }, { id: 'broken', timeout: '1s' })

for (const job of photos) {
  const { width, height, brightness } = await job.result()
  console.log(
    `${job.id}: ${photo.width} x ${photo.height} became ${width} x ${height}, brightness ${brightness}`,
  )
}
const took = Math.round(performance.now() - started)
delay.disable()
console.log(`in threads: ${photos.length} photos in ${took} ms`)
console.log(`the event loop was held up for ${Math.round(delay.max / 1e6)} ms at most`)

try {
  await broken.result()
} catch (error) {
  if (!isMillraceError(error, 'JOB_DEAD')) throw error
  console.log(error.message)
}
const { completed, dead } = (await mill.stats()).states
console.log(`${completed} completed, ${dead} dead`)
await mill.close() // ends the threads
