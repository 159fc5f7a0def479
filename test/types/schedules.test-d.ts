/** A schedule's input and result are those of its job. */
import { defineJob, type JobHandle, type Millrace, type ScheduleHandle, type ScheduleSlot } from 'millrace'
import { expectTypeOf } from 'vitest'
import { z } from 'zod'

declare const mill: Millrace

const report = defineJob({
  name: 'report',
  // The handler gets a Date, who schedules gives a text.
  input: z.object({ since: z.iso.datetime().transform((text) => new Date(text)) }),
  run: ({ since }, { schedule }) => {
    expectTypeOf(since).toEqualTypeOf<Date>()
    expectTypeOf(schedule).toEqualTypeOf<ScheduleSlot | undefined>()
    return { pages: 3 }
  },
})

const input = { since: '2030-01-01T00:00:00Z' }

const nightly = mill.schedule('nightly', { cron: '30 2 * * *', tz: 'Europe/Berlin', job: report, input })
expectTypeOf(nightly).resolves.toEqualTypeOf<ScheduleHandle<{ pages: number }>>()
expectTypeOf((await nightly).trigger()).resolves.toEqualTypeOf<JobHandle<{ pages: number }>>()
expectTypeOf(mill.schedule('nightly')).toEqualTypeOf<ScheduleHandle>()

// @ts-expect-error: the handler's type is not the caller's
void mill.schedule('nightly', { every: '1h', job: report, input: { since: new Date() } })
// @ts-expect-error: a job without its input
void mill.schedule('nightly', { every: '1h', job: report })
// @ts-expect-error: there is no such policy
void mill.schedule('nightly', { every: '1h', job: report, input, catchUp: 'some' })
void mill.schedule('nightly', { every: '1h', job: report, input, options: { priority: 'low', tags: ['a'] } })
// @ts-expect-error: slots say when a job starts
void mill.schedule('nightly', { every: '1h', job: report, input, options: { delay: '1m' } })
// @ts-expect-error: slots say what its id is
void mill.schedule('nightly', { every: '1h', job: report, input, options: { id: 'mine' } })

// @ts-expect-error: one of them says when
void mill.schedule('nightly', { cron: '30 2 * * *', every: '1h', job: report, input })
// @ts-expect-error: nothing says when
void mill.schedule('nightly', { job: report, input })
// @ts-expect-error: time that passes has no zone
void mill.schedule('nightly', { every: '1h', tz: 'Europe/Berlin', job: report, input })
