/** A process with one worker that books. It tells its parent what it does, and is killed in the middle of it. */
import { Millrace } from 'millrace'
import type { ProcessConfig } from './fleet.js'
import { bookMill } from './transactional-jobs.js'

process.on('disconnect', () => process.exit())
const { place, worker, leaseMs } = JSON.parse(process.argv[2] ?? '') as ProcessConfig
const mill = new Millrace(bookMill(place).options)
mill.on('completed', ({ id }) => process.send?.({ completed: id }))
await mill
  .worker({ name: worker, lease: leaseMs, poll: '50ms', concurrency: 4, handleSignals: false })
  .start()
