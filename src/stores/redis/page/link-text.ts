import type { LinkRow } from '../../page/links.js'

/**
 * How a link from a parent to a child is kept: 'end;fan', then its state, and the result if there is one, each on a line of its own.
 * The end is when the child completed, '' as long as it has not ended, and '-' where the state tells how it did. exchange.lua puts
 * the end before it and the result behind it.
 */
export function writeLinkText({ ended_at, fan, result, state }: LinkRow): string {
  const end = ended_at ?? (state.includes('"end":') ? '-' : '')
  const head = `${end};${fan === null ? '' : JSON.stringify(fan)}\n${state}`
  return result === null ? head : `${head}\n${result}`
}

export function readLinkText(parent: number, child: string, text: string): LinkRow {
  const a = text.indexOf(';')
  const b = text.indexOf('\n', a + 1)
  const c = text.indexOf('\n', b + 1)
  const end = text.slice(0, a)
  return {
    parent,
    child,
    fan: b === a + 1 ? null : (JSON.parse(text.slice(a + 1, b)) as string),
    ended_at: end === '' || end === '-' ? null : Number(end),
    state: c === -1 ? text.slice(b + 1) : text.slice(b + 1, c),
    result: c === -1 ? null : text.slice(c + 1),
  }
}
