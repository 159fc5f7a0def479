/** `n` with thousands apart: 12,345. */
export function count(n: number): string {
  return Math.round(n).toLocaleString('en-US')
}

/** As wide as asked: a negative width aligns to the right. Text that is too long is cut. */
export function pad(text: string, width: number): string {
  const cut = clip(text, Math.abs(width))
  return width < 0 ? cut.padStart(-width) : cut.padEnd(width)
}

export function clip(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** Cuts what would be visible beyond `width` and keeps the colour codes, which take no room. */
export function clipPainted(line: string, width: number): string {
  let room = width
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with one
  const parts = line.split(/(\x1b\[[\d;]*m)/).map((part, i) => {
    if (i % 2 === 1) return part
    const shown = part.slice(0, room)
    room -= shown.length
    return shown
  })
  return parts.join('')
}

/** 12 ms, 3.4 s, 2 min: a few digits are enough to compare. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms < 1) return '<1 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 6_000_000) return `${Math.round(ms / 60_000)} min`
  return `${Math.round(ms / 3_600_000)} h`
}

/** 1:02:03 */
export function clock(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  const two = (n: number) => String(n).padStart(2, '0')
  const minutes = Math.floor(seconds / 60)
  const tail = `${two(minutes % 60)}:${two(seconds % 60)}`
  return minutes < 60 ? tail : `${Math.floor(minutes / 60)}:${tail}`
}

/** The done part of a bar that is `width` wide in all; `part` from 0 to 1. */
export function bar(part: number, width: number): string {
  return '━'.repeat(Math.round(Math.min(1, Math.max(0, part)) * width))
}

const levels = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']

/** The last `width` values as a line of small columns. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width)
  const top = Math.max(1, ...shown)
  const columns = shown.map((value) => levels[Math.min(7, Math.floor((value / top) * 7.99))])
  return columns.join('').padStart(width)
}

/** Colours of a terminal, or none of them. */
export function palette(on: boolean) {
  const paint = (code: string) => (text: string) => (on && text !== '' ? `\x1b[${code}m${text}\x1b[0m` : text)
  return {
    bold: paint('1'),
    dim: paint('2'),
    red: paint('31'),
    green: paint('32'),
    yellow: paint('33'),
    blue: paint('34'),
    cyan: paint('36'),
    badge: paint('1;30;46'),
    alarm: paint('1;30;43'),
  }
}

export type Palette = ReturnType<typeof palette>
