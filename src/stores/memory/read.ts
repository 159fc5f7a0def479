import type { JobRecord, JobTrail } from '../../core/job.js'
import type {
  Counts,
  GatePage,
  GateQuery,
  GateRecord,
  JobPage,
  JobQuery,
  SchedulePage,
  ScheduleQuery,
} from '../../core/store.js'
import { gateRecord, isListed } from '../../core/traffic/gate.js'
import { toRecord } from '../ledger/record.js'
import { select } from './select.js'
import type { MemorySteps } from './steps.js'
import type { MemoryTables } from './tables.js'

export function get(tables: MemoryTables, ids: readonly string[]): (JobRecord | undefined)[] {
  return ids.map((id) => {
    const entry = tables.jobs.get(id)
    return entry === undefined ? undefined : toRecord(tables, entry)
  })
}

export function trail({ jobs }: MemoryTables, id: string): JobTrail | undefined {
  const story = jobs.get(id)?.story
  if (!jobs.has(id)) return undefined
  const steps = story?.steps as MemorySteps | undefined
  return { attempts: story?.attempts ?? [], logs: story?.logs ?? [], steps: steps?.all() ?? [] }
}

export function list(tables: MemoryTables, query: JobQuery): JobPage {
  const { entries, cursor } = select(tables, query)
  return { jobs: entries.map((entry) => toRecord(tables, entry)), cursor }
}

export function counts({ kinds }: MemoryTables): Counts {
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

export function gates(
  { books, clock }: MemoryTables,
  { of, owner, names, limit, cursor }: GateQuery,
): GatePage {
  const found: GateRecord[] = []
  let last = 0
  for (const gate of books.gates(of, owner)) {
    if (gate.num <= Number(cursor ?? 0) || !isListed(gate)) continue
    if (names !== undefined && !names.includes(gate.ref.name)) continue
    if (found.length === limit) return { gates: found, cursor: String(last) }
    found.push(gateRecord(gate, clock.now()))
    last = gate.num
  }
  return { gates: found, cursor: undefined }
}

export function schedules(
  { scheduled, clock }: MemoryTables,
  { names, limit, cursor = '' }: ScheduleQuery,
): SchedulePage {
  const wanted = [...(names ?? scheduled.keys())].filter((name) => name > cursor).sort()
  const found = wanted.flatMap((name) => scheduled.get(name)?.record ?? [])
  const page = found.slice(0, limit)
  return { schedules: page, cursor: found.length > limit ? page.at(-1)?.name : undefined, now: clock.now() }
}
