import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JobDefinition } from '../core/definition.js'
import { defineSaga, type NamedSagaStep, type SagaPolicy, type SagaStep } from './define-saga.js'

/** A saga that is put together step by step, so that each step knows the types of what the earlier ones give. */
export class SagaBuilder<Raw, Input, Results extends object> {
  readonly #policy: SagaPolicy<StandardSchemaV1 | undefined, Raw, Input>
  readonly #steps: readonly NamedSagaStep<unknown, Record<string, unknown>>[]

  constructor(
    policy: SagaPolicy<StandardSchemaV1 | undefined, Raw, Input>,
    steps: readonly NamedSagaStep<unknown, Record<string, unknown>>[] = [],
  ) {
    this.#policy = policy
    this.#steps = steps
  }

  /** Adds a step; its `run` before its `compensate`, which gets what it gives. */
  step<Name extends string, Result>(
    name: Name,
    step: SagaStep<Input, Results, Result>,
  ): SagaBuilder<Raw, Input, Results & { readonly [N in Name]: Result }> {
    const added = { ...step, name } as unknown as NamedSagaStep<unknown, Record<string, unknown>>
    return new SagaBuilder(this.#policy, [...this.#steps, added])
  }

  define(): JobDefinition<Raw, Input, { [Name in keyof Results]: Results[Name] }> {
    const options = { ...this.#policy, steps: this.#steps }
    return defineSaga(options as never) as unknown as JobDefinition<
      Raw,
      Input,
      { [Name in keyof Results]: Results[Name] }
    >
  }
}

/** `saga({ name }).step('reserve', { run, compensate }).step(…).define()`; see `defineSaga`. */
export function saga<Schema extends StandardSchemaV1>(
  policy: SagaPolicy<Schema, StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>> & {
    readonly input: Schema
  },
  // biome-ignore lint/complexity/noBannedTypes: the results of no steps
): SagaBuilder<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>, {}>
export function saga<Input = unknown>(
  policy: SagaPolicy<undefined, Input, Input> & { readonly input?: undefined },
  // biome-ignore lint/complexity/noBannedTypes: the results of no steps
): SagaBuilder<Input, Input, {}>
export function saga(policy: object): unknown {
  return new SagaBuilder(policy as SagaPolicy<StandardSchemaV1 | undefined, unknown, unknown>)
}
