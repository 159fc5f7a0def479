import { defineJob, type EveryOptions, type FiringOptions, type SpanOptions } from 'millrace'
import type { TestMill } from 'millrace/testing'

export const hour = 3_600_000
export const start = Date.parse('2030-01-01T00:00:00Z')

export const report = defineJob<{ of: string }, string>({
  name: 'report',
  run: ({ of }) => `report of ${of}`,
})
export const input = { of: 'sales' }

/** The slots of all jobs that were ever fired, as hours from the start. */
export async function firedHours(mill: TestMill, name = 'hourly'): Promise<number[]> {
  const jobs = await mill.enqueued(report)
  const slots = jobs.map(({ id }) => new RegExp(`^schedule:${name}:(.+)$`).exec(id)?.[1])
  return slots
    .filter((slot) => slot !== undefined)
    .map((slot) => (Date.parse(slot) - start) / hour)
    .sort((a, b) => a - b)
}

export function hourly(
  mill: TestMill,
  options: Partial<EveryOptions & SpanOptions & FiringOptions<{ of: string }>> = {},
) {
  return mill.schedule('hourly', { every: '1h', job: report, input, ...options })
}

/** Time passes while no worker runs. */
export function sleep(mill: TestMill, ms: number): Promise<void> {
  return mill.clock.advance(ms)
}
