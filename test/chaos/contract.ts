/** Names for the parts of the store contract that the package does not export by name. */
import type { Store } from 'millrace'

export type NewJob = Parameters<Store['insert']>[0][number]
export type ExchangeRequest = Parameters<Store['exchange']>[0]
export type ExchangeResult = Awaited<ReturnType<Store['exchange']>>
export type ClaimedJob = ExchangeResult['claimed'][number]
export type ExtendRequest = Parameters<Store['extend']>[0]
export type ExtendResult = Awaited<ReturnType<Store['extend']>>
export type JobRecord = NonNullable<Awaited<ReturnType<Store['get']>>[number]>
export type StoreTransaction = Awaited<ReturnType<Store['begin']>>
export type Setting = Parameters<Store['configure']>[0]
export type AcquireRequest = Parameters<Store['acquire']>[0]
export type GateQuery = Parameters<Store['gates']>[0]
