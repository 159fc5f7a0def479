import type { Entry } from '../ledger/entry.js'
import type { Parenthood } from '../ledger/parenthood.js'
import type { JobRow } from './job-row.js'
import { writeParenthood } from './jobs.js'
import type { LinkRow, PagedLinks } from './links.js'
import type { PagedSteps } from './steps.js'

/** What is stored of a job as the parent of others. */
export interface ParentRow {
  readonly seq: number
  readonly waiting: number
  readonly doomed: string | null
  readonly state: string
}

export interface StepRow {
  readonly seq: number
  readonly name: string
  readonly open: boolean
  readonly state: string
}

/** Children and steps of jobs that a try has looked at: what of them is to be written. */
export class KinChanges {
  readonly parents: ParentRow[] = []
  readonly links: LinkRow[] = []
  readonly newLinks: LinkRow[] = []
  readonly steps: StepRow[] = []
  /** Positions of jobs that have lost what their steps have added, their children, their steps, their logs. */
  readonly noFans: number[] = []
  readonly noParents: number[] = []
  readonly noSteps: number[] = []
  readonly noLogs: number[] = []

  see(row: JobRow | undefined, entry: Entry, now: Entry | undefined, before: PagedSteps | undefined): void {
    if (now === undefined) {
      if (row?.parent) this.noParents.push(entry.seq)
      if (before !== undefined) this.noSteps.push(entry.seq)
      this.noLogs.push(entry.seq)
      return
    }
    const parenthood = now.story?.parenthood
    if (parenthood !== undefined) this.#seeParent(row, now.seq, parenthood)
    const steps = now.story?.steps as PagedSteps | undefined
    if (before !== undefined && steps !== before) this.noSteps.push(now.seq)
    for (const step of steps?.written.values() ?? [])
      this.steps.push({ seq: now.seq, name: step.name, open: step.open, state: JSON.stringify(step) })
  }

  #seeParent(row: JobRow | undefined, seq: number, parenthood: Parenthood): void {
    const { waiting, doomed, state } = writeParenthood(parenthood)
    if (row?.parent !== state || row.waiting !== waiting || row.doomed !== doomed)
      this.parents.push({ seq, waiting, doomed, state })
    const { added, kept, fansForgotten } = (parenthood.links as PagedLinks).changes()
    if (fansForgotten) this.noFans.push(seq)
    this.links.push(...kept)
    this.newLinks.push(...added)
  }
}
