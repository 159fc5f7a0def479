import { isRemote } from '../engine/engines.js'

/** How much there is to do. Over a network each turn takes longer: fewer jobs say the same, under longer leases. */
export const { share, leaseMs } = isRemote ? { share: 1 / 4, leaseMs: 2_000 } : { share: 1, leaseMs: 600 }
