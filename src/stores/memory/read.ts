import { isFinal, type JobRecord, type JobState, type JobTrail } from '../../core/job.js'
import type { Counts, GatePage, GateQuery, GateRecord, JobPage, JobQuery } from '../../core/store.js'
import { gateRecord, isListed } from '../../core/traffic/gate.js'
import type { Entry } from './entry.js'
import { familyOf } from './family.js'
import { select } from './select.js'
import type { Tables } from './tables.js'

export function get(tables: Tables, ids: readonly string[]): (JobRecord | undefined)[] {
  return ids.map((id) => {
    const entry = tables.jobs.get(id)
    return entry === undefined ? undefined : toRecord(tables, entry)
  })
}

export function trail({ jobs }: Tables, id: string): JobTrail | undefined {
  const entry = jobs.get(id)
  return entry === undefined
    ? undefined
    : {
        attempts: entry.story?.attempts ?? [],
        logs: entry.story?.logs ?? [],
        steps: [...(entry.story?.steps?.values() ?? [])],
      }
}

export function list(tables: Tables, query: JobQuery): JobPage {
  const { entries, cursor } = select(tables, query)
  return { jobs: entries.map((entry) => toRecord(tables, entry)), cursor }
}

export function counts({ kinds }: Tables): Counts {
  return {
    kinds: Array.from(kinds.all(), ({ queue, name, lane, states, totals }) => ({
      queue: queue.name,
      name,
      lane,
      states: { ...states },
      totals: { ...totals },
    })),
    paused: [...kinds.queues.values()]
      .filter((queue) => queue.paused)
      .map((queue) => queue.name)
      .sort(),
  }
}

export function gates({ places, clock }: Tables, { of, owner, names, limit, cursor }: GateQuery): GatePage {
  const found: GateRecord[] = []
  let last = 0
  for (const gate of places.gates(of, owner)) {
    if (gate.num <= Number(cursor ?? 0) || !isListed(gate)) continue
    if (names !== undefined && !names.includes(gate.ref.name)) continue
    if (found.length === limit) return { gates: found, cursor: String(last) }
    found.push(gateRecord(gate, clock.now()))
    last = gate.num
  }
  return { gates: found, cursor: undefined }
}

function toRecord(tables: Tables, entry: Entry): JobRecord {
  const { job, state, rank, lease, story } = entry
  return {
    id: job.id,
    name: job.name,
    queue: job.queue,
    lane: job.lane,
    state,
    input: job.input,
    attempt: (story?.attempt ?? 0) + (state === 'running' ? 1 : 0),
    crashes: story?.crashes ?? 0,
    maxAttempts: job.maxAttempts,
    maxCrashes: job.maxCrashes,
    createdAt: entry.createdAt,
    dueAt: isDelayed(state) && rank !== Number.POSITIVE_INFINITY ? rank : undefined,
    startedAt: lease?.at ?? story?.startedAt,
    finishedAt: story?.finishedAt,
    expiresAt: isFinal(state) ? rank : undefined,
    worker: lease?.worker.id,
    result: story?.result,
    failure: story?.failure,
    cancelReason: story?.cancelReason,
    progress: story?.progress,
    overrides: job.overrides,
    tags: job.tags,
    metadata: job.metadata,
    group: job.traffic?.group,
    key: job.traffic?.key,
    family: familyOf(tables, entry),
    unwinds: job.unwinds === true,
  }
}

/** One whose rank is when it becomes ready; a blocked one may have no such time. */
function isDelayed(state: JobState): boolean {
  return state === 'scheduled' || state === 'retrying' || state === 'blocked'
}
