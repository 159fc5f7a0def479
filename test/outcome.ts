import type { Outcome } from 'millrace'

/** An outcome as the store gets it, for tests that settle by the store's verbs alone. */
export function outcomeOf(fields: Partial<Outcome> & Pick<Outcome, 'to'>): Outcome {
  return {
    spent: true,
    crashed: false,
    delay: 0,
    retain: 0,
    result: undefined,
    failure: undefined,
    reason: undefined,
    excused: false,
    idle: false,
    hold: 0,
    wait: undefined,
    ...fields,
  }
}
