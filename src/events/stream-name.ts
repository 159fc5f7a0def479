import { invalid } from '../core/options.js'

const longest = 256

/** Any text will do; the part before the first '-' is its category. Those that begin with '$' are Millrace's own. */
export function streamName(value: string): string {
  const isOne =
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= longest &&
    !isOwn(value) &&
    !value.includes('\0') &&
    value.isWellFormed()
  if (!isOne)
    throw invalid(
      'stream',
      value,
      `1 to ${longest} characters of well-formed text without NUL, not beginning with '$', such as 'account-1'`,
      longest,
    )
  return value
}

export function categoryOf(stream: string): string {
  return stream.split('-', 1)[0] as string
}

/** Names of projections and categories that are Millrace's own, as those of streams. */
export function isOwn(name: string): boolean {
  return name.startsWith('$')
}

/** Where what a projection has set aside is kept. */
export function skippedStream(projection: string): string {
  return `$skipped-${projection}`
}
