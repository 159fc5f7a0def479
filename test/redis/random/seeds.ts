/** Random runs, one after the other; one that fails tells how to replay it. */
import { Random } from '../../chaos/random.js'

/** Of one run, for when it fails. */
export interface Story {
  /** What the run is like. */
  traits: unknown
  readonly steps: string[]
}

export async function eachSeed(
  runs: number,
  run: (random: Random, story: Story) => Promise<void>,
): Promise<void> {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  for (let i = 0; i < runs; i++) {
    const story: Story = { traits: undefined, steps: [] }
    try {
      await run(new Random(seed + i), story)
    } catch (error) {
      throw new Error(told(seed + i, story, error), { cause: error })
    }
  }
}

const lastSteps = 30

function told(seed: number, { traits, steps }: Story, error: unknown): string {
  return [
    `replay: MILLRACE_SEED=${seed} MILLRACE_RUNS=1`,
    JSON.stringify(traits),
    ...steps.slice(-lastSteps),
    error instanceof Error ? error.message : String(error),
  ].join('\n')
}

/** By weight. */
export function pickWeighted<T>(random: Random, items: readonly (readonly [weight: number, item: T])[]): T {
  let left = random.between(
    0,
    items.reduce((sum, [weight]) => sum + weight, 0),
  )
  const found = items.find(([weight]) => {
    left -= weight
    return left < 0
  })
  return (found ?? (items[0] as readonly [number, T]))[1]
}
