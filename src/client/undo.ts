import type { AnyJob } from '../core/definition.js'
import type { LinkRecord } from '../core/family.js'
import type { NewJob } from '../core/job.js'
import { encodeInput, plainJob } from './new-job.js'
import { placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** What undoes a job of a flow, as its parent's link keeps it. */
interface Undo {
  readonly name: string
  readonly queue: string
  readonly lane: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  /** Encoded input of the job that is to be undone. */
  readonly of: string
}

export function undoText({ name, policy }: AnyJob, of: string): string {
  const { queue, lane, maxAttempts, maxCrashes } = policy
  return JSON.stringify({ name, queue, lane, maxAttempts, maxCrashes, of } satisfies Undo)
}

/** Jobs that undo these, in this order, each when the one before it has ended in any way. */
export function makeUndo(
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
  done: readonly LinkRecord[],
  waitersOf: (link: LinkRecord) => readonly string[],
): NewJob[] {
  const last = done.length - 1
  // Named after what is undone and when that was done: whoever finds that it has to be undone, it is so once.
  const idOf = (i: number) => `${done[i]?.child}.undo.${(done[i]?.endedAt ?? 0).toString(36)}`
  const made = done.map((link, i): NewJob => {
    const undo = JSON.parse(link.undo as string) as Undo
    const result = link.result === undefined ? undefined : runtime.codec.decode(link.result)
    const input = { input: runtime.codec.decode(undo.of), result }
    const { child, endedAt = 0 } = link
    const parent = { id: idOf(i + 1), onFailure: 'continue', wakes: false, undo: undefined } as const
    return {
      ...undoJob(runtime, jobs.get(undo.name), undo, input, idOf(i)),
      family: {
        flow: idOf(last),
        node: undefined,
        parents: i === last ? [] : [parent],
        waits: i === 0 ? 'no' : 'sealed',
        patience: 0,
        // Another parent may have added some of these before.
        loose: true,
        undoes: { child, endedAt, parents: waitersOf(link) },
      },
    }
  })
  return made.reverse()
}

/** By its definition where that is known here; otherwise by what its flow was told of it. */
function undoJob(
  runtime: Runtime,
  job: AnyJob | undefined,
  { name, queue, lane, maxAttempts, maxCrashes }: Undo,
  input: unknown,
  id: string,
): NewJob {
  const kind = job ?? {
    name,
    policy: { queue, lane, maxAttempts, maxCrashes },
    evolution: undefined,
  }
  const place = job && placement(job, input, undefined)
  return plainJob(runtime, kind, encodeInput(runtime, input), place, id)
}
