import { atLeast, atMost } from '../statistics.mjs'
import { claims, fanOut, flat, lists, retaining, traffic } from './own.mjs'
import { againstPeers, itself, rate } from './sides.mjs'

const here = { engine: 'postgres', options: {} }

const against = againstPeers('postgres')

const process = [
  against('graphile-worker', 'graphile-worker', 'processJobs', {
    name: 'process',
    jobs: 200_000,
    figures: rate(atLeast(2.5, 4)),
  }),
  against('pg-boss work', 'pg-boss', 'processJobs', {
    name: 'process',
    jobs: 200_000,
    figures: rate(atLeast(6, 12)),
  }),
  against('pg-boss fetch + complete', 'pg-boss', 'processJobs', {
    name: 'process',
    jobs: 200_000,
    figures: rate(atLeast(1.5, 2.5)),
    peerOptions: { raw: true },
  }),
  against('bullmq', 'bullmq-postgres', 'processJobs', {
    name: 'process',
    // It takes ten seconds for these.
    jobs: 20_000,
    mostJobs: 20_000,
    figures: rate(atLeast(4, 8)),
  }),
  against('ceiling', 'postgres-ceiling', 'processJobs', {
    name: 'process',
    jobs: 200_000,
    figures: rate(atLeast(0.6, 0.8)),
  }),
  against('ceiling', 'postgres-ceiling', 'processJobs', {
    name: 'enqueue + process',
    jobs: 200_000,
    figures: rate(atLeast(0.6, 0.8)),
    enqueueInside: true,
  }),
]

// So that the peers, which commit each job by itself, take some seconds.
const burst = { name: '500 concurrent enqueues', jobs: 5_000, figures: rate(atLeast(20, 40)) }
const enqueue = [
  against('graphile-worker addJob', 'graphile-worker', 'enqueueJobs', burst),
  against('pg-boss send', 'pg-boss', 'enqueueJobs', burst),
]

const latency = [
  { where: 'one process', samples: 200, options: { apart: false, pause: 30 } },
  { where: 'two processes', samples: 200, options: { apart: true, pause: 100 } },
].map(({ where, samples, options }) =>
  against('graphile-worker', 'graphile-worker', 'latency', {
    name: `enqueue → start, idle worker, ${where}`,
    jobs: samples,
    mostJobs: samples,
    figures: [
      { value: 'p50', label: 'p50', unit: 'ms', bar: atMost(0.8, 0.5) },
      { value: 'p99', label: 'p99', unit: 'ms', bar: atMost(0.8, 0.5) },
    ],
    ...options,
  }),
)

const writes = [
  { name: 'writes of enqueue + process', jobs: 100_000, single: false },
  { name: 'writes of 500 concurrent enqueues + process', jobs: 5_000, mostJobs: 5_000, single: true },
].map((one) =>
  against('graphile-worker', 'graphile-worker', 'writes', {
    ...one,
    figures: [
      { value: 'wal', label: 'WAL', unit: 'bytes/job', bar: atMost(0.7, 0.4) },
      { value: 'commits', label: 'commits', unit: 'commits/job', bar: atMost(0.7, 0.4) },
    ],
  }),
)

// `jobs` is what the worker has before it all the time.
const held = {
  engine: 'postgres',
  name: 'enqueue + process beside an open transaction',
  jobs: 5_000,
  seconds: 600,
  peerName: 'itself without',
  millrace: itself(here, 'steadily', { hold: true }),
  peer: itself(here, 'steadily', { hold: false }),
  figures: [
    { value: 'rate', label: 'all the time', unit: 'jobs/s', bar: atLeast(0.7, 0.9) },
    { value: 'last', label: 'last fifth of it', unit: 'jobs/s', bar: atLeast(0.7, 0.9) },
  ],
}

export const postgres = [
  ...process,
  ...enqueue,
  ...latency,
  ...writes,
  retaining(here),
  ...traffic(here),
  fanOut(here),
  ...claims(here),
  lists(here),
  held,
  flat(here),
].map((one) => ({ ...one, server: 'postgres' }))
