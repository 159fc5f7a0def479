/**
 * A definition whose runs kill workers is put in quarantine: its jobs run alone, or in a sandbox where one is
 * configured, until some have ended without harm. Neighbours of a poison job count its first crashes too, but
 * they run alone before their last life (see `runsAlone`), so only the guilty one reaches the limit.
 */

export interface Quarantine {
  /** When workers were lost with a job of this definition, the last few. */
  readonly crashes: readonly number[]
  /** Since when its jobs are suspects; undefined while they are not. */
  readonly since: number | undefined
  /** Runs that ended without harm since then. */
  readonly quiet: number
}

export const noQuarantine: Quarantine = { crashes: [], since: undefined, quiet: 0 }

const crashLimit = 3
const crashWindow = 3600_000
const quietRuns = 10
/** Workers that are lost together, with their machine or by a restart, say nothing about what they ran. */
const together = 5_000

/** A worker was lost while it ran jobs of the definition. */
export function afterCrash(state: Quarantine, now: number): Quarantine {
  const last = state.crashes.at(-1)
  if (last !== undefined && Math.abs(now - last) < together) return state
  const crashes = [...state.crashes.filter((at) => Math.abs(now - at) < crashWindow), now].slice(-crashLimit)
  return { crashes, since: crashes.length >= crashLimit ? now : state.since, quiet: 0 }
}

export function afterQuietRuns(state: Quarantine, count: number): Quarantine {
  if (state.since === undefined) return state
  const quiet = state.quiet + count
  return quiet >= quietRuns ? noQuarantine : { ...state, quiet }
}
