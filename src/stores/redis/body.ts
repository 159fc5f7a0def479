import type { StoredJob } from '../page/job-row.js'
import { separator } from '../page/separator.js'
import { position, positionDigits, seqIn } from './ticket.js'

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
  /** The position of its parent, of a child that is otherwise plain. */
  readonly child_of: number | null
  /** What is unusual about it from the beginning; see unusual.ts. */
  readonly unusual: string | null
}

export function writeBody({ kind, seq, created_at, child_of, unusual, ...given }: Body): string {
  const parent = child_of === null ? '' : `+${child_of}`
  return `${kind};${position(seq)};${created_at};${parent}${writeUnusual(unusual)}${writeGiven(given)}`
}

/** On a line of its own, so that many can have it in common. */
export function writeUnusual(text: string | null): string {
  return text === null ? '' : `${text}\n`
}

/** The input comes last, so that nothing in it has to be escaped but what stands between bodies that are sent as one text. */
export function writeGiven(given: Given): string {
  const { max_attempts, max_crashes, input, overrides, tags, search, metadata } = given
  const head = `${max_attempts};${max_crashes};`
  if (input.includes(separator))
    return `${head}${JSON.stringify([overrides, tags, search, metadata, input])}\n`
  const isBare = overrides === null && tags === null && search === null && metadata === null
  if (!isBare) return `${head}${JSON.stringify([overrides, tags, search, metadata])}\n${input}`
  return `${head}${input.length < 40 ? padding : ''}\n${input}`
}

export function readBody(text: string): Body {
  const a = text.indexOf(';')
  const b = a + 1 + positionDigits
  const c = text.indexOf(';', b + 1)
  const isUsual = text.charCodeAt(c + 1) < afterDigits && text[c + 1] !== '+'
  const brace = isUsual ? c + 1 : text.indexOf('{', c + 1)
  const start = isUsual ? c + 1 : text.indexOf('\n', brace) + 1
  const d = text.indexOf(';', start)
  const e = text.indexOf(';', d + 1)
  const end = text.indexOf('\n', e + 1)
  const [overrides, tags, search, metadata, escaped] =
    text[e + 1] === '[' ? readExtras(text.slice(e + 1, end)) : none
  return {
    kind: numberIn(text, 0, a),
    seq: seqIn(text, a + 1),
    created_at: numberIn(text, b + 1, c),
    child_of: brace === c + 1 ? null : numberIn(text, c + 2, brace),
    unusual: isUsual ? null : text.slice(brace, start - 1),
    max_attempts: numberIn(text, start, d),
    max_crashes: numberIn(text, d + 1, e),
    input: escaped ?? text.slice(end + 1),
    overrides,
    tags,
    search,
    metadata,
  }
}

/** The code of the letter behind the digits. */
const afterDigits = 58

/** Every job comes through here, so no text is made of what is digits only. */
function numberIn(text: string, from: number, to: number): number {
  let number = 0
  for (let i = from; i < to; i++) {
    const digit = text.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) return Number(text.slice(from, to))
    number = number * 10 + digit
  }
  return number
}

/** So that no body is short; see asTable in common.lua. */
const padding = ' '.repeat(32)

type Extras = readonly [
  overrides: string | null,
  tags: string | null,
  search: string | null,
  metadata: string | null,
  input?: string,
]

const none: Extras = [null, null, null, null]

function readExtras(text: string): Extras {
  return JSON.parse(text) as Extras
}
