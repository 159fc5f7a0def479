/** A process with one worker, which repeats at its start what the deploy declares. */
import { Millrace } from 'millrace'
import type { ProcessConfig } from './fleet.js'
import { scheduleMill, tick } from './schedule-jobs.js'

process.on('disconnect', () => process.exit())
const { place, worker, leaseMs } = JSON.parse(process.argv[2] ?? '') as ProcessConfig
const mill = new Millrace(scheduleMill(place))
for (const catchUp of ['all', 'last', 'skip'] as const)
  await mill.schedule(`declared-${catchUp}`, { every: '1s', job: tick, input: null, catchUp })
await mill.worker({ name: worker, lease: leaseMs, poll: '100ms', handleSignals: false }).start()
