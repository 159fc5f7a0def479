/** Every fault, in the order in which they run. */
import type { EngineName } from './engine.js'
import type { Fault } from './fault.js'
import { blockedLoop } from './faults/blocked-loop.js'
import { maxConnections, poolHeld } from './faults/connections.js'
import { eightWriters } from './faults/eight-writers.js'
import { killFlowProducer, killsInFlows } from './faults/flows.js'
import { fullDisk } from './faults/full-disk.js'
import { killAnywhere } from './faults/kill-anywhere.js'
import { killsAtFailPoints } from './faults/kill-at-fail-points.js'
import { killCheckpoint } from './faults/kill-checkpoint.js'
import { killDrain } from './faults/kill-drain.js'
import { killMigration } from './faults/kill-migration.js'
import { killProducer } from './faults/kill-producer.js'
import { lanesUnderLoad } from './faults/lanes.js'
import { killHoldingLimits } from './faults/limits.js'
import { lockedTable, longTransaction } from './faults/locks.js'
import { networkFaults } from './faults/network.js'
import { poolerFaults } from './faults/pgbouncer.js'
import { poisons } from './faults/poison.js'
import { flushedScripts, killedClients, outOfMemory } from './faults/redis.js'
import { clusterFaults } from './faults/redis-cluster.js'
import { everysecFaults } from './faults/redis-loss.js'
import { replyDropped } from './faults/reply-dropped.js'
import { sandboxes, suspect } from './faults/sandbox.js'
import { killAdvance } from './faults/schedules.js'
import { absentServer, killServer, outage, shortOutage, terminatedBackends } from './faults/server.js'
import { sigterm, sigtermDeadline, sigtermTwice } from './faults/shutdown.js'
import { killsAtSteps } from './faults/steps.js'
import { transactionFaults } from './faults/transactions.js'
import { zombie, zombieKilled } from './faults/zombie.js'

const faults: readonly Fault[] = [
  ...killsAtFailPoints,
  ...killsAtSteps,
  killDrain,
  killAnywhere,
  killCheckpoint,
  killMigration,
  killProducer,
  killHoldingLimits,
  killAdvance,
  ...killsInFlows,
  killFlowProducer,
  zombie,
  zombieKilled,
  lanesUnderLoad,
  blockedLoop,
  replyDropped,
  ...poisons,
  ...sandboxes,
  suspect,
  eightWriters,
  fullDisk,
  sigterm,
  sigtermTwice,
  sigtermDeadline,
  killServer,
  ...everysecFaults,
  terminatedBackends,
  killedClients,
  flushedScripts,
  outOfMemory,
  ...networkFaults,
  shortOutage,
  outage,
  absentServer,
  maxConnections,
  poolHeld,
  ...poolerFaults,
  ...transactionFaults,
  longTransaction,
  lockedTable,
  ...clusterFaults,
]

/** Processes cannot see that their server is one of a cluster, so there it is only the cluster that fails. */
export function faultsOf(engine: EngineName): readonly Fault[] {
  return faults.filter(({ engines }) => engines?.includes(engine) ?? engine !== 'redis-cluster')
}
