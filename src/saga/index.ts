export { SagaBuilder, saga } from './builder.js'
export {
  type CompensationContext,
  type CompensationOptions,
  defineSaga,
  type NamedSagaStep,
  type SagaContext,
  type SagaFailure,
  type SagaOptions,
  type SagaPolicy,
  type SagaStep,
} from './define-saga.js'
