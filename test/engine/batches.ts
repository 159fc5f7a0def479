/** What the tests of batches share. */
export const quietly = { handleSignals: false } as const

export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

/** A handler that keeps what it was called with and returns the double of each. */
export function recorder() {
  const calls: number[][] = []
  const run = (inputs: number[]): number[] => {
    calls.push([...inputs])
    return inputs.map((n) => n * 2)
  }
  return { calls, run, sizes: () => calls.map((call) => call.length) }
}
