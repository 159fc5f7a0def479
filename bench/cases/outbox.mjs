import { atLeast } from '../statistics.mjs'

const messages = (bar) => [{ value: 'rate', unit: 'messages/s', bar }]

/** The bar is for a server, where each row of the loop is a round trip and a commit; on a file it is a commit alone. */
const relay = (engine, server, bar) => ({
  engine,
  name: 'outbox: relay',
  jobs: 20_000,
  peerName: 'a loop, row at a time',
  millrace: { module: './outbox.mjs', measure: 'relay', options: { engine } },
  peer: { module: './peers/row-at-a-time.mjs', measure: 'relay', options: { engine } },
  figures: messages(bar),
  server,
})

/** The clock runs while the rows are written as well, one after the other: they are told of as they are committed. */
const streamed = {
  engine: 'postgres',
  name: 'outbox: write + relay by replication',
  jobs: 20_000,
  peerName: 'write + relay by polling',
  millrace: { module: './outbox.mjs', measure: 'writeAndRelay', options: { source: 'replication' } },
  peer: { module: './outbox.mjs', measure: 'writeAndRelay', options: { source: 'poll' } },
  figures: messages(undefined),
  server: 'postgres-logical',
}

const latency = ['notify', 'polling', 'replication'].map((how) => ({
  engine: 'postgres',
  name: `outbox: transaction → start, ${how}`,
  jobs: how === 'polling' ? 50 : 200,
  mostJobs: 200,
  millrace: { module: './outbox.mjs', measure: 'latency', options: { how, pause: 30 } },
  figures: [
    { value: 'p50', label: 'p50', unit: 'ms' },
    { value: 'p99', label: 'p99', unit: 'ms' },
  ],
  server: 'postgres-logical',
}))

export const outbox = [relay('sqlite'), relay('postgres', 'postgres', atLeast(20)), streamed, ...latency]
