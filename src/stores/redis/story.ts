import type { StoredJob } from '../page/job-row.js'

/**
 * What `s` has of a job: what happened to it, or how it is to be treated. `rest`: where it is no more what it was from the beginning,
 * which its body tells. A job that waits for its first run and nothing else has none. The first three letters are for the scripts: the number of its state, whether it is special, whether it is a parent.
 */
export interface Story extends Pick<StoredJob, 'state' | 'special' | 'rank' | 'finished_at' | 'rest'> {
  readonly isParent: boolean
}

/** Many that follow each other are alike. */
let last: { readonly story: Story; readonly text: string } | undefined

export function writeStory(story: Story): string {
  if (last === undefined || !isAlike(last.story, story)) last = { story, text: textOf(story) }
  return last.text
}

function isAlike(a: Story, b: Story): boolean {
  return (
    a.rank === b.rank &&
    a.finished_at === b.finished_at &&
    a.state === b.state &&
    a.special === b.special &&
    a.isParent === b.isParent &&
    a.rest === b.rest
  )
}

function textOf({ state, special, isParent, rank, finished_at, rest }: Story): string {
  const letters = `${state}${special ? 1 : 0}${isParent ? 'p' : '-'}`
  return `${`${letters}${rank ?? ''}`.padEnd(65)};${finished_at ?? ''};${rest ?? ''}`
}

export function readStory(text: string): Story {
  if (text === '') return untold
  const a = text.indexOf(';')
  const b = text.indexOf(';', a + 1)
  return {
    state: Number(text[0]),
    special: text[1] === '1',
    isParent: text[2] === 'p',
    rank: numberIn(text.slice(3, a).trimEnd()),
    finished_at: numberIn(text.slice(a + 1, b)),
    rest: text.slice(b + 1) || null,
  }
}

const untold: Story = {
  state: 0,
  special: false,
  isParent: false,
  rank: null,
  finished_at: null,
  rest: null,
}

/** Of a job that has nothing to tell. */
export const plainStory = writeStory(untold)

export function numberIn(text: string): number | null {
  return text === '' ? null : Number(text)
}
