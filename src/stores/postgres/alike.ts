import type { NewJob } from '../../core/job.js'

/** Whether they are ready, of one kind, each another job, and have nothing but an input that the others do not have. */
export function areAlike(jobs: readonly NewJob[]): boolean {
  const [first] = jobs
  return first !== undefined && jobs.every((job) => isBare(job) && isLike(job, first)) && areApart(jobs)
}

function isBare({ delay, runAt, overrides, tags, search, metadata }: NewJob): boolean {
  return delay === 0 && (runAt ?? overrides ?? tags ?? search ?? metadata) === undefined
}

function isLike(a: NewJob, b: NewJob): boolean {
  return (
    a.name === b.name &&
    a.queue === b.queue &&
    a.lane === b.lane &&
    a.maxAttempts === b.maxAttempts &&
    a.maxCrashes === b.maxCrashes
  )
}

function areApart(jobs: readonly NewJob[]): boolean {
  return jobs.length === 1 || new Set(jobs.map(({ id }) => id)).size === jobs.length
}
