import { atLeast, atMost } from '../statistics.mjs'
import { trafficCases } from './traffic.mjs'

const rate = (bar) => [{ value: 'rate', unit: 'jobs/s', bar }]
const itself = (measure, options, flags) => ({
  module: './millrace.mjs',
  measure,
  options: { engine: 'sqlite', ...options },
  flags,
})
const peer = (name, measure, options) => ({ module: `./peers/${name}.mjs`, measure, options })

/** Both sides are given the same options. */
function against(peerName, module, measure, { name, jobs, mostJobs, bar, ...options }) {
  return {
    engine: 'sqlite',
    name,
    jobs,
    mostJobs,
    peerName,
    millrace: itself(measure, options),
    peer: peer(module, measure, options),
    figures: rate(bar),
  }
}

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
      bar: atLeast(4, 6),
      synchronous,
    }),
    against('liteque', 'liteque', 'processJobs', { name, ...few, bar: atLeast(4, 6), synchronous }),
    against('ceiling', 'sqlite-ceiling', 'processJobs', {
      name,
      jobs: 200_000,
      bar: atLeast(0.6, 0.8),
      synchronous,
    }),
    against('ceiling', 'sqlite-ceiling', 'processJobs', {
      name: `enqueue + process, synchronous=${synchronous}`,
      jobs: 200_000,
      bar: atLeast(0.6, 0.8),
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
      bar: atLeast(1.5, 3),
      synchronous,
    }),
    against('liteque enqueue', 'liteque', 'enqueueJobs', {
      name,
      jobs: 10_000,
      bar: atLeast(1.5, 3),
      synchronous,
    }),
  ]
})

const retaining = {
  engine: 'sqlite',
  name: 'process, retaining 7 days',
  jobs: 100_000,
  peerName: 'itself retaining nothing',
  millrace: itself('processJobs', { retain: '7d', synchronous: 'full' }),
  peer: itself('processJobs', { retain: 0, synchronous: 'full' }),
  figures: rate(atLeast(0.6, 0.8)),
}

const traffic = trafficCases.flatMap(({ title, traffic }) =>
  [false, true].map((enqueueInside) => ({
    engine: 'sqlite',
    name: `${enqueueInside ? 'enqueue + process' : 'process'}, ${title}`,
    jobs: 100_000,
    peerName: 'itself without',
    millrace: itself('processJobs', { traffic, enqueueInside, synchronous: 'full' }),
    peer: itself('processJobs', { enqueueInside, synchronous: 'full' }),
    figures: rate(atLeast(0.5, 0.7)),
  })),
)

const fanOut = ['normal', 'full'].map((synchronous) => ({
  engine: 'sqlite',
  name: `a flow of children, synchronous=${synchronous}`,
  jobs: 100_000,
  peerName: 'plain jobs',
  millrace: itself('processFlow', { synchronous }),
  peer: itself('processJobs', { enqueueInside: true, synchronous }),
  figures: rate(atLeast(0.5, 0.7)),
}))

const grouped = (jobs) => jobs.toLocaleString('en-US')

/** `jobs` is the size of the backlog, and of the scheduled and the finished jobs beside it. */
function claimCost(name, template, beside, peerName, { groups, fewGroups, bar = atMost(1.2, 1.05) } = {}) {
  const few = fewGroups === undefined ? 'few.db' : 'few-groups.db'
  return {
    engine: 'sqlite',
    name,
    jobs: 1_000_000,
    peerName,
    prepare: (jobs) => [
      itself('prefill', { template, groups, ...beside(jobs) }),
      itself('prefill', { template: few, groups: fewGroups, waiting: 1_000 }),
    ],
    millrace: itself('claims', { template, groups }),
    peer: itself('claims', { template: few, groups: fewGroups }),
    figures: [{ value: 'cost', unit: 'µs/job', bar }],
  }
}

const claims = [
  claimCost(
    (jobs) => `claim with ${grouped(jobs)} waiting`,
    'many.db',
    (jobs) => ({ waiting: jobs }),
    'itself with 1,000',
  ),
  claimCost(
    (jobs) => `claim with ${grouped(jobs)} scheduled, ${grouped(jobs)} finished`,
    'beside.db',
    (jobs) => ({ waiting: 1_000, scheduled: jobs, finished: jobs }),
    'itself without',
  ),
  claimCost(
    (jobs) => `claim with ${grouped(jobs)} waiting in 100,000 groups`,
    'groups.db',
    (jobs) => ({ waiting: jobs }),
    'itself with 1,000 in 100',
    // A hundred groups stay in memory, a hundred thousand are read as their turn comes.
    { groups: 100_000, fewGroups: 100, bar: atMost(3) },
  ),
]

const one = against('plainjob', 'plainjob', 'processJobs', {
  name: 'process, concurrency 1, synchronous=normal',
  jobs: 20_000,
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
  millrace: itself('latency', { synchronous: 'full', ...options }),
  figures: [
    { value: 'p50', label: 'p50', unit: 'ms' },
    { value: 'p99', label: 'p99', unit: 'ms' },
  ],
}))

const flat = {
  engine: 'sqlite',
  name: 'worker memory, last third of the jobs',
  jobs: 1_000_000,
  peerName: 'itself, first third',
  millrace: itself('memory', { synchronous: 'normal' }, ['--expose-gc']),
  figures: [
    { value: 'heap', peerValue: 'heapAtFirst', label: 'heap', unit: 'MB', bar: atMost(1.1) },
    { value: 'rss', peerValue: 'rssAtFirst', label: 'resident', unit: 'MB', bar: atMost(1.1) },
  ],
}

export const sqlite = [
  ...process,
  ...enqueue,
  retaining,
  ...traffic,
  ...fanOut,
  ...claims,
  one,
  ...latency,
  flat,
]
