// For test/unit/bench.test.ts; the benchmark itself is plain JavaScript.
export interface Bar {
  readonly sign: '≥' | '≤'
  readonly bar: number
  readonly goal: number | undefined
}

export interface Summary {
  readonly millrace: number | null
  readonly peer: number | null
  readonly ratio: number | null
  readonly rounds: number
  readonly spread: readonly [number, number] | null
  readonly bar: string | null
  readonly goal: number | null
  readonly met: boolean | null
}

export function median(values: readonly number[]): number
export function percentile(values: readonly number[], share: number): number
export function atLeast(bar: number, goal?: number): Bar
export function atMost(bar: number, goal?: number): Bar
export function meets(ratio: number, bar: Bar): boolean
export function summarize(
  rounds: readonly { readonly millrace?: number | undefined; readonly peer?: number | undefined }[],
  bar?: Bar,
): Summary
