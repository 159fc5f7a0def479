/** A process with one worker. */
import { Millrace } from 'millrace'
import type { ProcessConfig } from './fleet.js'
import { concurrency, laneMill } from './lane-jobs.js'

process.on('disconnect', () => process.exit())
const { place, worker, leaseMs } = JSON.parse(process.argv[2] ?? '') as ProcessConfig
const mill = new Millrace(laneMill(place))
// Jobs held beyond the slots would start in an order that was decided earlier.
const options = { concurrency, prefetch: 0, poll: '100ms', handleSignals: false } as const
await mill.worker({ ...options, name: worker, lease: leaseMs }).start()
