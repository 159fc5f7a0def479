import { atLeast, atMost } from '../statistics.mjs'
import { claims, fanOut, flat, lists, retaining, traffic } from './own.mjs'
import { againstPeers, rate } from './sides.mjs'

const here = { engine: 'redis', options: {} }

const against = againstPeers('redis')

// The bar of its case is for BullMQ. Without one: how another queue does it.
const queues = [
  { peerName: 'bullmq', module: 'bullmq-redis', bar: (bar) => bar },
  { peerName: 'bee-queue', module: 'bee-queue', bar: () => undefined },
]

const ceiling = [
  { name: 'process', enqueueInside: false },
  { name: 'enqueue + process', enqueueInside: true },
].flatMap(({ name, enqueueInside }) => [
  // Insert, claim, delete, as on the other engines.
  against('ceiling', 'redis-ceiling', 'processJobs', {
    name,
    jobs: 500_000,
    figures: rate(atLeast(0.6, 0.8)),
    enqueueInside,
    peerOptions: { kept: true },
  }),
  // Without a bar: what is popped is gone, and lost with whoever popped it.
  against('bare pop', 'redis-ceiling', 'processJobs', {
    name,
    jobs: 500_000,
    figures: rate(),
    enqueueInside,
  }),
])

const others = queues.flatMap(({ peerName, module, bar }) => [
  against(peerName, module, 'processJobs', {
    name: 'process',
    jobs: 50_000,
    figures: rate(bar(atLeast(5, 8))),
  }),
  against(peerName, module, 'processJobs', {
    name: 'process, concurrency 1',
    jobs: 20_000,
    figures: rate(bar(atLeast(1.2, 1.5))),
    concurrency: 1,
  }),
  against(peerName, module, 'enqueueJobs', {
    name: '500 concurrent enqueues',
    jobs: 50_000,
    figures: rate(bar(atLeast(3, 5))),
  }),
  against(peerName, module, 'enqueueMany', {
    name: 'bulk enqueue',
    jobs: 100_000,
    figures: rate(bar(atLeast(4, 6))),
  }),
  against(peerName, module, 'bytes', {
    name: 'memory of a waiting job, 200 B of payload',
    jobs: 100_000,
    rounds: 3,
    figures: [{ value: 'bytes', unit: 'bytes/job', bar: bar(atMost(0.6, 0.45)) }],
  }),
  against(peerName, module, 'idle', {
    name: 'idle worker',
    jobs: 1_000,
    mostJobs: 1_000,
    // As long as the longest of all intervals, or what is done seldom would be left out: BullMQ's is 30 s; of Millrace's,
    // a lease is renewed and a process says that it listens every 60 s, and every tenth look at what is due, one in 30 s,
    // is a whole sweep. One round, for what is counted over so long varies little.
    seconds: 300,
    rounds: 1,
    figures: [{ value: 'commands', unit: 'commands/s', bar: bar(atMost(0.5, 0.2)) }],
  }),
  ...[
    { where: 'one process', apart: false, pause: 30 },
    { where: 'two processes', apart: true, pause: 100 },
  ].map(({ where, ...options }) =>
    against(peerName, module, 'latency', {
      name: `enqueue → start, idle worker, ${where}`,
      jobs: 200,
      mostJobs: 200,
      figures: [
        { value: 'p50', label: 'p50', unit: 'ms', bar: bar(atMost(0.8, 0.5)) },
        { value: 'p99', label: 'p99', unit: 'ms', bar: bar(atMost(0.8, 0.5)) },
      ],
      ...options,
    }),
  ),
])

export const redis = [
  ...others,
  ...ceiling,
  retaining(here),
  ...traffic(here),
  fanOut(here),
  ...claims(here),
  lists(here),
  flat(here),
].map((one) => ({ ...one, server: 'redis' }))
