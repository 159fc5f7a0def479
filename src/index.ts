export {
  type DeadFilter,
  type DeadGroup,
  DeadLetters,
  type RetryAllOptions,
  type RetryAllReport,
  type RetryOptions,
} from './client/dead.js'
export type { TransactionOption } from './client/enqueue.js'
export { DefinitionHandle, type DefinitionStatus, GroupHandle, type GroupStatus } from './client/gates.js'
export {
  type CancelResult,
  type EnqueueStatus,
  JobHandle,
  type JobList,
  type JobSnapshot,
  type JobStep,
  type PageOptions,
  type WaitOptions,
} from './client/inspect.js'
export { type AcquireOptions, Limiter } from './client/limiter.js'
export { type GroupList, type QueueDepth, QueueHandle } from './client/queue.js'
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
export type { BreakerPhase, BreakerPolicy } from './core/flow/breaker.js'
export type { Dedupe, DedupeMode } from './core/flow/dedupe.js'
export type { DepthPolicy, Overflow } from './core/flow/depth.js'
export type {
  BreakerOptions,
  CompiledDedupe,
  CompiledFlow,
  DedupeOptions,
  DepthOptions,
  JobFlowOptions,
  LimitOptions,
  QueueOptions,
  RateOptions,
} from './core/flow/options.js'
export type { Rate } from './core/flow/rate.js'
export type { FlowChange, FlowSettings, GateRef, JobFlow, Limit } from './core/flow/settings.js'
export {
  type CompiledSandbox,
  defineHandler,
  fromModule,
  type Handler,
  type HandlerModule,
  type SandboxOptions,
} from './core/handler.js'
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
} from './core/job.js'
export type { Pick, Priority, Room } from './core/lanes.js'
export type { Orphan, Outcome, TotalName } from './core/lifecycle.js'
export type { JobPolicy, LaneOptions, RetainOptions } from './core/options.js'
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
  JobFilter,
  JobPage,
  JobQuery,
  KindCounts,
  OperateReport,
  OrphanedJob,
  Report,
  RetryChange,
  Selector,
  Setting,
  Settlement,
  SettleResult,
  Signal,
  SignalResult,
  Store,
  SweepReport,
  SweepRequest,
} from './core/store.js'
export { type JobsFilter, Millrace, type MillraceOptions } from './millrace.js'
export type { SandboxPoolOptions, WorkerOptions } from './worker/options.js'
export { Worker } from './worker/worker.js'
