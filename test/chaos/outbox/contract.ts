/** Names for the parts of the contract that the package does not export by name. */
import type { JobTarget, OutboxStore } from 'millrace/outbox'

export type Following = NonNullable<Awaited<ReturnType<OutboxStore['follow']>>>
export type NewJob = Parameters<JobTarget['insert']>[0][number]
