/** Judges whether each slot of a schedule fired exactly one job: I6. */
import type { ScheduleSnapshot } from 'millrace'
import type { Violation } from './checker.js'

/** `schedules` recur with `every` from `from` on, catch up with all, and were last read after all they fired. */
export function checkSlots(
  ids: readonly string[],
  schedules: readonly Pick<ScheduleSnapshot, 'name' | 'every' | 'from' | 'createdAt' | 'last' | 'fired'>[],
): Violation[] {
  return schedules.flatMap((schedule) => {
    const { name, fired } = schedule
    const prefix = `schedule:${name}:`
    const found = ids.filter((id) => id.startsWith(prefix)).map((id) => Date.parse(id.slice(prefix.length)))
    const expected = expectedSlots(schedule)
    const missing = expected.filter((slot) => !found.includes(slot))
    const extra = found.filter((slot) => !expected.includes(slot))
    const complaints = [
      ...(missing.length > 0 ? [`${missing.length} slots without a job: ${show(missing)}`] : []),
      ...(extra.length > 0 ? [`${extra.length} jobs of no slot: ${show(extra)}`] : []),
      ...(fired === expected.length ? [] : [`it counts ${fired} slots, there were ${expected.length}`]),
    ]
    return complaints.map((text): Violation => ({ invariant: 'I6', text: `schedule ${name}: ${text}` }))
  })
}

function expectedSlots({
  every = 0,
  from,
  createdAt,
  last,
}: Pick<ScheduleSnapshot, 'every' | 'from' | 'createdAt' | 'last'>): number[] {
  const slots: number[] = []
  const end = last?.getTime() ?? Number.NEGATIVE_INFINITY
  for (let slot = from?.getTime() ?? 0; slot <= end; slot += every)
    if (slot > createdAt.getTime()) slots.push(slot)
  return slots
}

function show(slots: readonly number[]): string {
  const texts = slots.slice(0, 3).map((slot) => new Date(slot).toISOString())
  return texts.join(', ') + (slots.length > 3 ? ', …' : '')
}
