// Cases in which Millrace is measured against itself. Each takes a `place`: { engine, options } that every
// measurement of the engine gets.
import { atLeast, atMost } from '../statistics.mjs'
import { itself, rate } from './sides.mjs'
import { trafficCases } from './traffic.mjs'

export const retaining = (place) => ({
  engine: place.engine,
  name: 'process, retaining 7 days',
  jobs: 100_000,
  peerName: 'itself retaining nothing',
  millrace: itself(place, 'processJobs', { retain: '7d' }),
  peer: itself(place, 'processJobs', { retain: 0 }),
  figures: rate(atLeast(0.6, 0.8)),
})

export const traffic = (place) =>
  trafficCases.flatMap(({ title, traffic }) =>
    [false, true].map((enqueueInside) => ({
      engine: place.engine,
      name: `${enqueueInside ? 'enqueue + process' : 'process'}, ${title}`,
      jobs: 100_000,
      peerName: 'itself without',
      millrace: itself(place, 'processJobs', { traffic, enqueueInside }),
      peer: itself(place, 'processJobs', { enqueueInside }),
      figures: rate(atLeast(0.5, 0.7)),
    })),
  )

export const fanOut = (place, name = 'a flow of children') => ({
  engine: place.engine,
  name,
  jobs: 100_000,
  peerName: 'plain jobs',
  millrace: itself(place, 'processFlow'),
  peer: itself(place, 'processJobs', { enqueueInside: true }),
  figures: rate(atLeast(0.5, 0.7)),
})

/** `jobs` is the size of the backlog, and of the scheduled and the finished jobs beside it. */
export const claims = (place) => [
  claimCost(place, {
    name: (jobs) => `claim with ${grouped(jobs)} waiting`,
    kept: 'many',
    beside: (jobs) => ({ waiting: jobs }),
    peerName: 'itself with 1,000',
  }),
  claimCost(place, {
    name: (jobs) => `claim with ${grouped(jobs)} scheduled, ${grouped(jobs)} finished`,
    kept: 'beside',
    beside: (jobs) => ({ waiting: 1_000, scheduled: jobs, finished: jobs }),
    peerName: 'itself without',
  }),
  claimCost(place, {
    name: (jobs) => `claim with ${grouped(jobs)} waiting in 100,000 groups`,
    kept: 'groups',
    beside: (jobs) => ({ waiting: jobs }),
    peerName: 'itself with 1,000 in 100',
    // A hundred groups stay in memory, a hundred thousand are read as their turn comes.
    groups: 100_000,
    fewGroups: 100,
    bar: atMost(3),
  }),
]

function claimCost(place, { name, kept, beside, peerName, groups, fewGroups, bar = atMost(1.2, 1.05) }) {
  return {
    engine: place.engine,
    name,
    jobs: 1_000_000,
    peerName,
    prepare: (jobs) => [
      itself(place, 'prefill', { groups, ...beside(jobs) }, { keep: kept }),
      itself(place, 'prefill', { groups: fewGroups, waiting: 1_000 }, { keep: 'few' }),
    ],
    millrace: itself(place, 'claims', { groups }, { from: kept }),
    peer: itself(place, 'claims', { groups: fewGroups }, { from: 'few' }),
    figures: [{ value: 'cost', unit: 'µs/job', bar }],
  }
}

/** What is rare is found among so many waiting, scheduled and finished jobs each. */
export const lists = (place) => ({
  engine: place.engine,
  name: (jobs) => `list what is rare among ${grouped(3 * jobs)}`,
  jobs: 1_000_000,
  peerName: 'itself among 3,000',
  prepare: (jobs) => [
    itself(place, 'prefill', { waiting: jobs, scheduled: jobs, finished: jobs }, { keep: 'listed' }),
    itself(place, 'prefill', { waiting: 1_000, scheduled: 1_000, finished: 1_000 }, { keep: 'fewListed' }),
  ],
  millrace: itself(place, 'lists', {}, { from: 'listed' }),
  peer: itself(place, 'lists', {}, { from: 'fewListed' }),
  figures: [
    { value: 'page', label: 'median', unit: 'ms', bar: atMost(3) },
    { value: 'slowest', label: 'p95', unit: 'ms', bar: atMost(10) },
  ],
})

const grouped = (jobs) => jobs.toLocaleString('en-US')

export const flat = (place) => ({
  engine: place.engine,
  name: 'worker memory, last third of the jobs',
  jobs: 1_000_000,
  peerName: 'itself, first third',
  millrace: itself(place, 'memory', {}, { flags: ['--expose-gc'] }),
  figures: [
    { value: 'heap', peerValue: 'heapAtFirst', label: 'heap', unit: 'MB', bar: atMost(1.1) },
    { value: 'rss', peerValue: 'rssAtFirst', label: 'resident', unit: 'MB', bar: atMost(1.1) },
  ],
})
