export interface Measurement {
  readonly module: string
  readonly measure: string
  readonly options?: Readonly<Record<string, unknown>>
  readonly flags?: readonly string[]
  readonly node?: string
  readonly from?: string
  readonly keep?: string
}

export function measure(spec: Measurement, home: string): Promise<Record<string, number>>
