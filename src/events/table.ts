import { invalid } from '../core/options.js'

const pattern = /^[A-Za-z][A-Za-z0-9_-]*$/
const longest = 50

/** The name of a generation's table, within what PostgreSQL takes. */
export function tableOf(projection: string, generation: number): string {
  if (typeof projection !== 'string' || projection.length > longest || !pattern.test(projection))
    throw invalid(
      'name',
      projection,
      `1 to ${longest} letters, digits, '_' and '-', beginning with a letter: tables are named after it`,
      longest,
    )
  return `${projection.replaceAll('-', '_').toLowerCase()}_${generation}`
}
