import type { JobRow } from '../../page/job-row.js'
import { readBody } from '../body.js'
import { numberIn, readStory } from '../story.js'
import { idOf } from '../ticket.js'
import { readUnusual } from '../unusual.js'

/** A job as look.lua tells it; '' for what it has not. */
export type JobReply = readonly [
  handle: string,
  body: string,
  story: string,
  token: string,
  worker: string,
  wait: string,
  turn: string,
  done: string,
  parent: string,
  start: string,
  run: string,
]

/** Its count of children, as it was read; see ParentText. */
export function parentTextIn(reply: JobReply): string {
  return reply[8]
}

/** When it was started, if it runs. */
export function startIn(reply: JobReply): string {
  return reply[9]
}

/** A row with the texts that it was made of, to see at the end whether the job is still as it was read. */
export interface ReadJob extends JobRow {
  readonly read: JobReply
}

export function readJob(reply: JobReply): ReadJob {
  const [handle, body, story, token, , wait, turn, done, parent] = reply
  const { isParent, ...told } = readStory(story)
  const { unusual, ...given } = readBody(body)
  const end = done === '' ? undone : readDone(done)
  const place = wait === '' ? null : Number(wait.slice(0, wait.indexOf(';')))
  const isInLine = told.state === 0 && token === '' && place === null && done === ''
  const [waiting, doomed, state] = parent === '' ? [null, null, null] : (JSON.parse(parent) as ParentText)
  return {
    id: idOf(handle),
    ...given,
    ...told,
    rest: told.rest ?? (unusual && readUnusual(unusual)),
    place,
    turn: numberIn(turn),
    run_first: isInLine ? given.seq : null,
    run_last: isInLine ? given.seq : null,
    ...end,
    finished_at: told.finished_at ?? end.finished_at,
    parent: state,
    waiting,
    doomed,
    read: reply,
  }
}

export type ParentText = readonly [waiting: number, doomed: string | null, state: string]

const undone = { expires_at: null, started_at: null, finished_at: null, result: null }

/** How it completed on the fast path. */
function readDone(text: string) {
  const a = text.indexOf(';')
  const b = text.indexOf(';', a + 1)
  const c = text.indexOf(';', b + 1)
  return {
    started_at: Number(text.slice(0, a)),
    finished_at: Number(text.slice(a + 1, b)),
    expires_at: Number(text.slice(b + 1, c)),
    result: text.slice(c + 1),
  }
}
