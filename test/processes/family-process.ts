/** A process with one worker. */
import { Millrace } from 'millrace'
import { familyMill } from './family-jobs.js'
import type { ProcessConfig } from './fleet.js'

process.on('disconnect', () => process.exit())
const { place, worker, leaseMs } = JSON.parse(process.argv[2] ?? '') as ProcessConfig
const mill = new Millrace(familyMill(place))
await mill
  .worker({ name: worker, lease: leaseMs, poll: '100ms', concurrency: 8, handleSignals: false })
  .start()
