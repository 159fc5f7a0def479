import type { StoredJob } from '../page/job-row.js'
import { position, seqIn } from './ticket.js'

/** What a job is, as far as it comes from whoever added it. */
type Given = Pick<
  StoredJob,
  'max_attempts' | 'max_crashes' | 'input' | 'overrides' | 'tags' | 'search' | 'metadata'
>

/** What `j` has of a job; see common.lua. The server adds the first three to what insert.ts sends. */
export interface Body extends Given {
  readonly kind: number
  readonly seq: number
  readonly created_at: number
}

export function writeBody({ kind, seq, created_at, ...given }: Body): string {
  return `${kind};${position(seq)};${created_at};${writeGiven(given)}`
}

/** The input comes last, so that nothing in it has to be escaped. */
export function writeGiven(given: Given): string {
  const { max_attempts, max_crashes, input, overrides, tags, search, metadata } = given
  const isBare = overrides === null && tags === null && search === null && metadata === null
  const extras = isBare
    ? input.length < 40
      ? padding
      : ''
    : JSON.stringify([overrides, tags, search, metadata])
  return `${max_attempts};${max_crashes};${extras}\n${input}`
}

export function readBody(text: string): Body {
  const end = text.indexOf('\n')
  const a = text.indexOf(';')
  const b = text.indexOf(';', a + 1)
  const c = text.indexOf(';', b + 1)
  const d = text.indexOf(';', c + 1)
  const e = text.indexOf(';', d + 1)
  const [overrides, tags, search, metadata] = text[e + 1] === '[' ? readExtras(text.slice(e + 1, end)) : none
  return {
    kind: Number(text.slice(0, a)),
    seq: seqIn(text.slice(a + 1, b)),
    created_at: Number(text.slice(b + 1, c)),
    max_attempts: Number(text.slice(c + 1, d)),
    max_crashes: Number(text.slice(d + 1, e)),
    input: text.slice(end + 1),
    overrides,
    tags,
    search,
    metadata,
  }
}

/** So that no body is short; see asTable in common.lua. */
const padding = ' '.repeat(32)

type Extras = readonly [string | null, string | null, string | null, string | null]

const none: Extras = [null, null, null, null]

function readExtras(text: string): Extras {
  return JSON.parse(text) as Extras
}
