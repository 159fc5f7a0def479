/** Random runs of steps that print how to replay what failed: MILLRACE_SEED and MILLRACE_PATH. */
import type { Arbitrary } from 'fast-check'
import type { FastCheck } from './model-steps.js'

export interface PropertyOptions {
  readonly runs: number
  readonly seed: number | undefined
}

/** Names a step while it is taken, so that a failure says where. */
export type At = (name: string, body: () => Promise<unknown>) => Promise<void>

export async function checkProperty<Step>(
  complaint: string,
  { runs, seed }: PropertyOptions,
  stepsOf: (fc: FastCheck) => Arbitrary<Step[]>,
  run: (steps: readonly Step[], at: At) => Promise<void>,
): Promise<void> {
  const fc = await loadFastCheck()
  const property = fc.asyncProperty(stepsOf(fc), async (steps) => {
    let count = 0
    await run(steps, async (name, body) => {
      count++
      try {
        await body()
      } catch (error) {
        throw new Parted(count, name, error)
      }
    })
  })
  const { MILLRACE_SEED, MILLRACE_PATH } = process.env
  const chosen = MILLRACE_SEED === undefined ? seed : Number(MILLRACE_SEED)
  const details = await fc.check(property, {
    numRuns: runs,
    ...(chosen === undefined ? {} : { seed: chosen }),
    ...(MILLRACE_PATH === undefined ? {} : { path: MILLRACE_PATH }),
  })
  if (!details.failed) return
  const cause = details.errorInstance
  const steps = (details.counterexample?.[0] ?? []).slice(0, cause instanceof Parted ? cause.step : undefined)
  throw new Error(
    [
      `${complaint}, found in run ${details.numRuns} of ${runs}`,
      `replay: MILLRACE_SEED=${details.seed} MILLRACE_PATH=${details.counterexamplePath}`,
      ...steps.map((step, i) => `${i + 1}. ${JSON.stringify(step)}`),
      cause instanceof Error ? cause.message : String(cause),
    ].join('\n'),
    { cause },
  )
}

class Parted extends Error {
  readonly step: number

  constructor(step: number, name: string, cause: unknown) {
    super(`at step ${step}, ${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.step = step
  }
}

async function loadFastCheck(): Promise<FastCheck> {
  try {
    return await import('fast-check')
  } catch (error) {
    throw new Error('random runs need fast-check: npm install --save-dev fast-check', { cause: error })
  }
}
