import { type Kind, slots } from '../../store.js'

/** Slots of jobs come first, those of messages behind them. */
export function firstOf(kind: Kind): number {
  return kind === 'job' ? 0 : slots
}

export function kindOf(slot: number): Kind {
  return slot < slots ? 'job' : 'message'
}
