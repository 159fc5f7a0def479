import type { JobRecord } from '../../core/job.js'
import { plain } from './helpers.js'

/** What a record must show. The last failure of a completed or cancelled job is nobody's promise. */
export function viewOfRecord(record: JobRecord) {
  const { startedAt, worker, failure, ...rest } = record
  const running = record.state === 'running'
  return {
    ...rest,
    startedAt: running ? startedAt : undefined,
    worker: running ? worker : undefined,
    failure: record.state === 'completed' || record.state === 'cancelled' ? undefined : plain(failure),
  }
}
