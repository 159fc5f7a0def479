export type { Appended, AppendOptions } from './append.js'
export type { ArchivedEvent } from './catalogue.js'
export type { ReachedOptions } from './catch-up.js'
export {
  type Aggregate,
  type AggregateOptions,
  type Appliers,
  defineAggregate,
  type SnapshotOptions,
} from './define-aggregate.js'
export {
  type AnyEvent,
  type ArrivingEvent,
  type ArrivingOf,
  type DraftOf,
  defineEvent,
  type EventDefinition,
  type EventDraft,
  type EventOf,
  type EventOfType,
  type EventOptions,
  type RecordedEvent,
} from './define-event.js'
export {
  type AnyProjection,
  defineProjection,
  type InlineContext,
  type InlineHandlers,
  type InlineProjection,
  type InlineProjectionOptions,
  type Projection,
  type ProjectionContext,
  type ProjectionHandlers,
  type ProjectionOptions,
  type SkipOptions,
  type SwapContext,
  type TableContext,
  type TransactionOf,
} from './define-projection.js'
export {
  defineReaction,
  type EnqueueForEvent,
  type JobTarget,
  type ReactionContext,
  type ReactionHandlers,
  type ReactionOptions,
} from './define-reaction.js'
export { WrongVersionError } from './errors.js'
export type { Decide, DecideContext, Decision, Executed, ExecuteOptions } from './execute.js'
export type { EventRef, EventStoreEvents, EventStoreListener } from './listeners.js'
export type { Loaded } from './load.js'
export type {
  AdvanceRequest,
  AllPage,
  AllQuery,
  Append,
  AppendResult,
  Checkpoint,
  DeclaredProjection,
  EventLog,
  Expected,
  Held,
  HoldRequest,
  LogCapabilities,
  LogTransaction,
  NewEvent,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
  SnapshotRecord,
  StoredEvent,
  StreamPage,
  StreamQuery,
  Surplus,
  SurplusQuery,
} from './log.js'
export { MemoryLog, type MemoryLogOptions, memoryLog } from './logs/memory/index.js'
export { PostgresLog, postgresLog } from './logs/postgres/index.js'
export { SqliteLog, sqliteLog } from './logs/sqlite/index.js'
export type { EventSource, EventStoreOptions, KnownEvent } from './options.js'
export type { FollowOptions, ReadAllOptions, ReadOptions } from './read.js'
export type { RebuildOptions, RebuildProgress, Rebuilt } from './rebuild-options.js'
export type { Archive, ArchiveContext, RetentionOptions, RetentionPolicy } from './retention.js'
export type { SkippedEvent } from './skipped.js'
export type { EventStats, PartStats, ProjectionStats } from './stats.js'
export { EventStore } from './store.js'
export type { TidyReport } from './tidy.js'
export { EventWorker } from './worker.js'
export type { EventWorkerOptions } from './worker-options.js'
