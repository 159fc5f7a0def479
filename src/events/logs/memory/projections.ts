import { MillraceError } from '../../../core/errors.js'
import type {
  AdvanceRequest,
  DeclaredProjection,
  Held,
  HoldRequest,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
} from '../../log.js'

interface Part {
  position: number
  token: string | undefined
  owner: string | undefined
  leasedUntil: number
}

interface Projection {
  readonly name: string
  readonly parts: number
  live: number
  building: number | undefined
  readonly generations: Map<number, Part[]>
}

/** What a verb answers now, and what it changes when its transaction commits. */
export interface Change<T> {
  readonly answer: T
  readonly apply: () => void
}

/** The projections of a memory log: their generations, checkpoints and leases. */
export class Projections {
  readonly #known = new Map<string, Projection>()

  list(now: number): ProjectionRecord[] {
    return [...this.#known.values()].map((projection) => recordOf(projection, now))
  }

  declare({ name, parts, after }: NewProjection, now: number): Change<DeclaredProjection> {
    const known = this.#known.get(name)
    if (known !== undefined) return { answer: { ...recordOf(known, now), fresh: false }, apply: nothing }
    const generations = new Map([[1, freshParts(parts, after)]])
    const added: Projection = { name, parts, live: 1, building: undefined, generations }
    return {
      answer: { ...recordOf(added, now), fresh: true },
      apply: () => void this.#known.set(name, added),
    }
  }

  forget(name: string): Change<void> {
    return { answer: undefined, apply: () => void this.#known.delete(name) }
  }

  hold(request: HoldRequest, now: number): Held | undefined {
    const { name, generation, part: number, token, renewal = false, owner, lease } = request
    const part = this.#part(name, generation, number)
    if (part === undefined || (part.token !== token && (renewal || part.leasedUntil > now))) return undefined
    Object.assign(part, { token, owner, leasedUntil: now + lease })
    return { position: part.position }
  }

  advance(request: AdvanceRequest, now: number): Change<'advanced' | 'lost'> {
    const { name, generation, part: number, token, position, done } = request
    const part = this.#part(name, generation, number)
    if (part === undefined || part.token !== token || part.leasedUntil <= now)
      return { answer: 'lost', apply: nothing }
    return {
      answer: 'advanced',
      apply: () => {
        part.position = position
        if (done) Object.assign(part, { token: undefined, owner: undefined, leasedUntil: 0 })
      },
    }
  }

  rebuild(change: RebuildChange, now: number): Change<ProjectionRecord> {
    const projection = this.#known.get(change.name)
    if (projection === undefined) throw refused(`there is no projection '${change.name}'`, change)
    const next = { ...projection, generations: new Map(projection.generations) }
    changeRebuild(next, change)
    const apply = () => {
      const { live, building, generations } = next
      projection.live = live
      projection.building = building
      projection.generations.clear()
      for (const [generation, parts] of generations) projection.generations.set(generation, parts)
    }
    return { answer: recordOf(next, now), apply }
  }

  #part(name: string, generation: number, part: number): Part | undefined {
    return this.#known.get(name)?.generations.get(generation)?.[part]
  }
}

function changeRebuild(projection: Projection, change: RebuildChange): void {
  const { name, live, building, generations, parts } = projection
  if (change.do === 'begin') {
    if (building !== undefined) throw refused(`'${name}' is being rebuilt already`, change)
    projection.building = live + 1
    generations.set(live + 1, freshParts(parts, 0))
    return
  }
  if (building !== change.generation)
    throw refused(`generation ${change.generation} of '${name}' is not being built`, change)
  generations.delete(change.do === 'swap' ? live : building)
  if (change.do === 'swap') projection.live = building
  projection.building = undefined
}

function freshParts(count: number, position: number): Part[] {
  return Array.from({ length: count }, () => ({
    position,
    token: undefined,
    owner: undefined,
    leasedUntil: 0,
  }))
}

function recordOf({ name, parts, live, building, generations }: Projection, now: number): ProjectionRecord {
  const checkpoints = [...generations].flatMap(([generation, list]) =>
    list.map(({ position, owner, leasedUntil }, part) => ({
      generation,
      part,
      position,
      owner: leasedUntil > now ? owner : undefined,
    })),
  )
  return { name, parts, live, building, checkpoints }
}

function refused(why: string, { do: what, name }: RebuildChange): MillraceError {
  return new MillraceError('STORE_REFUSED', `cannot ${what} a rebuild: ${why}`, {
    field: 'projection',
    value: name,
  })
}

function nothing(): void {}
