import type { StepRecord } from '../../core/step.js'
import { steps as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

export interface Steps {
  write(seq: number, steps: readonly StepRecord[]): void
  read(seq: number): StepRecord[]
  /** Ends the sleeps and waits whose time has come; tells whether there were any. */
  endOverdue(seq: number, now: number): boolean
  forget(seq: number): void
}

interface StepRow {
  readonly name: string
  readonly value: string | null
  readonly open: number
  readonly until: number | null
  readonly signal: number | null
  readonly at: number
}

export function makeSteps({ db }: Pick<Tables, 'db'>): Steps {
  const writeOne = db.prepare(sql.write)
  const mark = db.prepare(sql.mark)
  const readAll = db.prepare<[number], StepRow>(sql.read)
  const endOverdue = db.prepare(sql.endOverdue)
  const forget = db.prepare(sql.forget)
  const unmark = db.prepare(sql.unmark)

  return {
    write(seq, steps) {
      for (const { name, value, open, until, signal, at } of steps)
        writeOne.run(seq, name, value ?? null, open ? 1 : 0, until ?? null, signal ?? null, at)
      mark.run(seq)
    },
    read: (seq) => readAll.all(seq).map(toRecord),
    endOverdue: (seq, now) => endOverdue.run(seq, now).changes > 0,
    forget(seq) {
      forget.run(seq)
      unmark.run(seq)
    },
  }
}

function toRecord({ name, value, open, until, signal, at }: StepRow): StepRecord {
  return {
    name,
    value: value ?? undefined,
    open: open === 1,
    until: until ?? undefined,
    signal: signal ?? undefined,
    at,
  }
}
