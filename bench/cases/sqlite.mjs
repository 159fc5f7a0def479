import { atLeast } from '../statistics.mjs'
import { claims, fanOut, flat, retaining, traffic } from './own.mjs'
import { againstPeers, itself, rate } from './sides.mjs'

const against = againstPeers('sqlite')
const at = (synchronous) => ({ engine: 'sqlite', options: { synchronous } })

// So that plainjob, which syncs each job by itself, takes some seconds with either.
const many = { normal: 50_000, full: 20_000 }

// liteque slows down with the number of jobs that wait.
const few = { jobs: 4_000, mostJobs: 4_000 }

const process = ['normal', 'full'].flatMap((synchronous) => {
  const name = `process, synchronous=${synchronous}`
  return [
    against('plainjob', 'plainjob', 'processJobs', {
      name,
      jobs: many[synchronous],
      figures: rate(atLeast(4, 6)),
      synchronous,
    }),
    against('liteque', 'liteque', 'processJobs', { name, ...few, figures: rate(atLeast(4, 6)), synchronous }),
    against('ceiling', 'sqlite-ceiling', 'processJobs', {
      name,
      jobs: 200_000,
      figures: rate(atLeast(0.6, 0.8)),
      synchronous,
    }),
    against('ceiling', 'sqlite-ceiling', 'processJobs', {
      name: `enqueue + process, synchronous=${synchronous}`,
      jobs: 200_000,
      figures: rate(atLeast(0.6, 0.8)),
      synchronous,
      enqueueInside: true,
    }),
  ]
})

const enqueue = ['normal', 'full'].flatMap((synchronous) => {
  const name = `500 concurrent enqueues, synchronous=${synchronous}`
  return [
    against('plainjob add', 'plainjob', 'enqueueJobs', {
      name,
      jobs: 50_000,
      figures: rate(atLeast(1.5, 3)),
      synchronous,
    }),
    against('liteque enqueue', 'liteque', 'enqueueJobs', {
      name,
      jobs: 10_000,
      figures: rate(atLeast(1.5, 3)),
      synchronous,
    }),
  ]
})

const flows = ['normal', 'full'].map((synchronous) =>
  fanOut(at(synchronous), `a flow of children, synchronous=${synchronous}`),
)

const one = against('plainjob', 'plainjob', 'processJobs', {
  name: 'process, concurrency 1, synchronous=normal',
  jobs: 20_000,
  figures: rate(),
  synchronous: 'normal',
  concurrency: 1,
})

// An idle worker looks for the writes of other processes ten times a second; it is idle after 300 ms.
const latency = [
  { where: 'one process', samples: 200, options: { apart: false, pause: 30 } },
  { where: 'two processes', samples: 60, options: { apart: true, pause: 300 } },
].map(({ where, samples, options }) => ({
  engine: 'sqlite',
  name: `enqueue → start, idle worker, ${where}`,
  jobs: samples,
  mostJobs: samples,
  millrace: itself(at('full'), 'latency', options),
  figures: [
    { value: 'p50', label: 'p50', unit: 'ms' },
    { value: 'p99', label: 'p99', unit: 'ms' },
  ],
}))

export const sqlite = [
  ...process,
  ...enqueue,
  retaining(at('full')),
  ...traffic(at('full')),
  ...flows,
  ...claims(at('normal')),
  one,
  ...latency,
  flat(at('normal')),
]
