import { atLeast } from '../statistics.mjs'
import { rate } from './sides.mjs'
import { trafficCases } from './traffic.mjs'

/** Enqueue and run are both inside the clock, for everybody. */
function run(peerName, module, bar, { name = 'run', ...options } = {}) {
  return {
    engine: 'memory',
    name,
    jobs: 300_000,
    peerName,
    millrace: { module: './millrace.mjs', measure: 'runJobs', options: { engine: 'memory', ...options } },
    peer: { module: `./peers/${module}.mjs`, measure: 'runJobs' },
    figures: rate(bar),
  }
}

// Without a bar: each call of `enqueue` also pays for a promise and a handle of its own, as the peers' do.
const single = { name: 'run, single enqueues', single: true }

const traffic = trafficCases.map(({ title, traffic }) => ({
  engine: 'memory',
  name: `run, ${title}`,
  jobs: 300_000,
  peerName: 'itself without',
  millrace: { module: './millrace.mjs', measure: 'runJobs', options: { engine: 'memory', traffic } },
  peer: { module: './millrace.mjs', measure: 'runJobs', options: { engine: 'memory' } },
  figures: rate(atLeast(0.5, 0.7)),
}))

const fanOut = {
  engine: 'memory',
  name: 'a flow of children',
  jobs: 100_000,
  peerName: 'plain jobs',
  millrace: { module: './millrace.mjs', measure: 'processFlow', options: { engine: 'memory' } },
  peer: {
    module: './millrace.mjs',
    measure: 'processJobs',
    options: { engine: 'memory', enqueueInside: true },
  },
  figures: rate(atLeast(0.5, 0.7)),
}

export const memory = [
  run('p-queue', 'p-queue', atLeast(1, 2)),
  run('fastq', 'fastq', atLeast(0.5, 0.8)),
  run('ceiling', 'memory-ceiling', atLeast(0.6, 0.8)),
  run('p-queue', 'p-queue', undefined, single),
  run('fastq', 'fastq', undefined, single),
  ...traffic,
  fanOut,
]
