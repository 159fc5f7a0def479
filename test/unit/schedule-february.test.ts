/** The first days of March come though the days that February lacks match too. croner on its own goes past them. */
import { expect, test } from 'vitest'
import { slotsAfter } from '../../src/core/recurrence.js'
import { enumerate, Zone } from './calendar.js'

const cases: [string, string, string, string, string[]][] = [
  [
    'the 2nd before a Sunday that is a 3rd',
    '45 2 2 * 0',
    'Australia/Adelaide',
    '2030-02-20T00:00Z',
    ['2030-02-23T16:15Z', '2030-03-01T16:15Z', '2030-03-02T16:15Z', '2030-03-09T16:15Z'],
  ],
  [
    'the 1st before a Saturday, twice in an hour',
    '*/30 2 1 * 6',
    'Europe/Berlin',
    '2030-02-23T02:00Z',
    ['2030-03-01T01:00Z', '2030-03-01T01:30Z', '2030-03-02T01:00Z'],
  ],
  [
    'the 1st, with weekday and months by name',
    '0 0 1 FEB,mar SUN',
    'UTC',
    '2030-02-24T00:00Z',
    ['2030-03-01T00:00Z', '2030-03-03T00:00Z'],
  ],
  [
    'the 1st and the 30th',
    '0 0 1,30 * *',
    'UTC',
    '2030-02-01T00:00Z',
    ['2030-03-01T00:00Z', '2030-03-30T00:00Z'],
  ],
  [
    'the 2nd and the 31st',
    '0 0 2,31 * *',
    'UTC',
    '2030-02-02T00:00Z',
    ['2030-03-02T00:00Z', '2030-03-31T00:00Z'],
  ],
  [
    'the 1st in a year with a 29th of February',
    '0 0 */10 * *',
    'UTC',
    '2028-02-21T00:00Z',
    ['2028-03-01T00:00Z', '2028-03-11T00:00Z'],
  ],
  [
    'the first Friday, and the 31st',
    '0 0 31 * 5#1',
    'UTC',
    '2030-02-01T00:00Z',
    ['2030-03-01T00:00Z', '2030-03-31T00:00Z'],
  ],
  [
    'the first Friday, and all Sundays',
    '0 0 * * FRI#1,SUN',
    'UTC',
    '2030-02-24T00:00Z',
    ['2030-03-01T00:00Z', '2030-03-03T00:00Z'],
  ],
  [
    'a 1st that is a Friday, and none other in that year',
    '0 0 1,31 2,3 +5,6',
    'UTC',
    '2024-02-02T00:00Z',
    ['2024-03-01T00:00Z', '2025-02-01T00:00Z'],
  ],
  [
    'February only, with a day that it lacks',
    '0 0 1,30 2 *',
    'UTC',
    '2030-01-01T00:00Z',
    ['2030-02-01T00:00Z', '2031-02-01T00:00Z'],
  ],
  [
    'no day of February at all',
    '0 0 30,31 * *',
    'UTC',
    '2030-01-30T00:00Z',
    ['2030-01-31T00:00Z', '2030-03-30T00:00Z'],
  ],
]
test.for(cases)('%s', ([, cron, tz, after, expected]) => {
  const slots = slotsAfter({ cron, tz }, Date.parse(after), expected.length, Number.POSITIVE_INFINITY)
  expect(slots).toEqual(expected.map((time) => Date.parse(time)))
})

test.for([
  // Weekdays repeat after 28 years.
  ['45 2', 'UTC', 2026, 2054],
  ['15,45 2', 'Australia/Adelaide', 2028, 2031],
] as const)('none is left out: %s in %s from %i to %i', ([time, tz, from, to]) => {
  const start = Date.UTC(from, 0, 1)
  const end = Date.UTC(to, 0, 1)
  const zone = new Zone(tz, start, end)
  for (const days of ['1', '2', '1,29', '1,30', '1,31', '2,31', '*/10', '27-31']) {
    for (const weekdays of ['*', '0', '1', '2', '3', '4', '5', '6', '1-5']) {
      const cron = `${time} ${days} 1-4 ${weekdays}`
      const slots = slotsAfter({ cron, tz }, start, Number.POSITIVE_INFINITY, end)
      expect(slots, cron).toEqual(enumerate(cron, zone, start, end))
    }
  }
})
