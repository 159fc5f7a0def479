export { BatchHandle, type BatchProgress, type Callback, type NewBatch } from './client/batch.js'
export {
  type DeadFilter,
  type DeadGroup,
  DeadLetters,
  type RetryAllOptions,
  type RetryAllReport,
  type RetryOptions,
} from './client/dead.js'
export type { TransactionOption } from './client/enqueue.js'
export type { FlowOptions } from './client/flow.js'
export type { AnyFlow, Flow, FlowChain, FlowGraph, FlowResult, FlowTree } from './client/flow-types.js'
export { DefinitionHandle, type DefinitionStatus, GroupHandle, type GroupStatus } from './client/gates.js'
export type { Graph, GraphNode } from './client/graph.js'
export {
  type Beginning,
  type BeginOptions,
  type Begun,
  Idempotency,
  type IdempotentContext,
  type IdempotentOptions,
} from './client/idempotency.js'
export {
  type CancelResult,
  type EnqueueStatus,
  type JobFamily,
  JobHandle,
  type JobList,
  type JobSnapshot,
  type JobStep,
  type PageOptions,
  type WaitOptions,
} from './client/inspect.js'
export { type AcquireOptions, Limiter } from './client/limiter.js'
export { type GroupList, type QueueDepth, QueueHandle } from './client/queue.js'
export type { FiringOptions, ScheduledJobOptions, ScheduleOptions } from './client/schedule-options.js'
export { ScheduleHandle, type ScheduleList, type ScheduleSnapshot } from './client/schedules.js'
export type { SentSignal, SignalOptions } from './client/signal.js'
export type { Figures, StateCounts, Stats, Totals } from './client/stats.js'
export type { BackoffOptions, CustomBackoff, Jitter } from './core/backoff.js'
export {
  type BatchContext,
  type BatchJobOptions,
  type BatchOptions,
  type BatchOutcome,
  type BatchOutcomes,
  type BatchResult,
  type CompiledBatch,
  defineBatchJob,
} from './core/batch.js'
export type { Clock } from './core/clock.js'
export { type Codec, jsonCodec } from './core/codec.js'
export {
  type AnyJob,
  type Child,
  cancel,
  Directive,
  defineJob,
  type EnqueueFromHandler,
  type EnqueueOptions,
  type JobContext,
  type JobDefinition,
  type JobOptions,
  limited,
  snooze,
} from './core/definition.js'
export type { Duration } from './core/duration.js'
export {
  type ErrorCode,
  isMillraceError,
  MillraceError,
  NonRetryableError,
  type QueueFullDetails,
  QueueFullError,
  RetryAfter,
} from './core/errors.js'
export type { EventName, JobEvent, Listener, MillraceEvents, RunEvent } from './core/events.js'
export type { CompiledEvolution } from './core/evolution.js'
export type { Completion, FailurePolicy, Family, LinkRecord, NewFamily, ParentLink } from './core/family.js'
export type { CatchUp, ScheduleSlot } from './core/firing.js'
export type { ClaimedGuard, GuardRequest, GuardResult, NewGuard } from './core/guard.js'
export {
  type CompiledSandbox,
  defineHandler,
  fromModule,
  type Handler,
  type HandlerModule,
  type SandboxOptions,
} from './core/handler.js'
export type { CompiledIdempotency, IdempotencyOptions } from './core/idempotency.js'
export type {
  AttemptRecord,
  ClaimedJob,
  Failure,
  JobRecord,
  JobState,
  JobTrail,
  LogLevel,
  LogLine,
  NewJob,
  RootFailure,
} from './core/job.js'
export type { Pick, Priority, Room } from './core/lanes.js'
export type { Orphan, Outcome, TotalName } from './core/lifecycle.js'
export type { JobPolicy, LaneOptions, RetainOptions } from './core/options.js'
export type { AnyNode, NodeOptions } from './core/plan.js'
export type { CronOptions, EveryOptions, RecurrenceOptions, SpanOptions } from './core/recurrence.js'
export type { DueSchedule, ScheduleChange, ScheduleRecord, ScheduleResult } from './core/schedule.js'
export type { FieldFilter, FieldValue } from './core/search.js'
export type { NewSignal, SignalWait, StepRecord, Wait } from './core/step.js'
export type { SleepOptions, Step, StepContext, StepPart, WaitForOptions } from './core/step-function.js'
export type {
  AcquireRequest,
  AcquireResult,
  Capabilities,
  Cause,
  ClaimRequest,
  Command,
  Counts,
  ExchangeRequest,
  ExchangeResult,
  ExtendRequest,
  ExtendResult,
  GatePage,
  GateQuery,
  GateRecord,
  Held,
  InsertResult,
  Inventory,
  JobFilter,
  JobPage,
  JobQuery,
  KindCounts,
  LeasedJob,
  LinkPage,
  LinkQuery,
  OperateReport,
  OrphanedJob,
  Report,
  RetryChange,
  SchedulePage,
  ScheduleQuery,
  Selector,
  Setting,
  Settlement,
  SettleResult,
  Signal,
  SignalResult,
  Store,
  StoreTransaction,
  Stray,
  SweepReport,
  SweepRequest,
} from './core/store.js'
export type { BreakerPhase, BreakerPolicy } from './core/traffic/breaker.js'
export type { Dedupe, DedupeMode } from './core/traffic/dedupe.js'
export type { DepthPolicy, Overflow } from './core/traffic/depth.js'
export type {
  BreakerOptions,
  CompiledDedupe,
  CompiledTraffic,
  DedupeOptions,
  DepthOptions,
  JobTrafficOptions,
  LimitOptions,
  QueueOptions,
  RateOptions,
} from './core/traffic/options.js'
export type { Rate } from './core/traffic/rate.js'
export type { GateRef, JobTraffic, Limit, TrafficChange, TrafficSettings } from './core/traffic/settings.js'
export { type JobsFilter, Millrace, type MillraceOptions } from './millrace.js'
export type { SandboxPoolOptions, WorkerOptions } from './worker/options.js'
export { Worker } from './worker/worker.js'
