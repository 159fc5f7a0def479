/**
 * How gates are kept. A group of which nothing is known but its jobs is a tally: how many wait and run, the tags of the last one that
 * came and of the last that came back, and the line that it waits in; it is read with its key behind that. Scripts add, start and end its jobs without the desk
 * while a loan says so; see loans.ts. All other gates are records, which only the desk changes.
 */
import type { GateRow } from '../../page/places.js'

interface Counts {
  readonly pending?: number
  readonly running?: number
  readonly lines?: readonly (readonly [
    line: number,
    tag: number,
    back: number,
    standing: number,
    parked: number,
  ])[]
}

const countsOnly: ReadonlySet<string> = new Set<keyof Counts>(['pending', 'running', 'lines'])

/** With the text that it was made of, to see at the end whether it is still as it was read. */
interface Tally extends GateRow {
  readonly text: string
}

/** Undefined for a record. */
export function textOfTally(row: GateRow): string | undefined {
  return (row as Partial<Tally>).text
}

/** A record, or a tally behind its number. */
export function readGate(text: string): GateRow {
  if (text.startsWith('{')) return JSON.parse(text) as GateRow
  const at = text.indexOf(':')
  const [pending, running, tag, back, line, ...rest] = text.slice(at + 1).split(';')
  const [, owner = '', ...name] = rest.join(';').split('\n')
  const state: Counts = {
    ...(pending !== '0' && { pending: Number(pending) }),
    ...(running !== '0' && { running: Number(running) }),
    lines: [[Number(line), Number(tag), Number(back), Number(pending), 0]],
  }
  const tally: Tally = {
    text,
    num: Number(text.slice(0, at)),
    scope: 'group',
    owner,
    name: name.join('\n'),
    parked: 0,
    active: false,
    due: null,
    fading: null,
    state: JSON.stringify(state),
  }
  return tally
}

export function keyOfGate({ scope, owner, name }: GateRow): string {
  return `${scope}\n${owner}\n${name}`
}

/** Undefined where there is more to be kept. */
export function tallyOf(row: GateRow): string | undefined {
  if (row.scope !== 'group' || row.active || row.due !== null || row.fading !== null) return undefined
  const state = JSON.parse(row.state) as Counts
  if (!Object.keys(state).every((field) => countsOnly.has(field))) return undefined
  const { pending = 0, running = 0, lines = [] } = state
  const [[line, tag, back, standing, parked] = none, ...others] = lines
  const isOne = others.length === 0 && standing === pending && parked === 0 && pending + running > 0
  return isOne ? [pending, running, tag, back, line].join(';') : undefined
}

const none = [0, 0, 0, 0, 0] as const
