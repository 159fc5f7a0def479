import type { QueueRow } from '../page/kinds.js'

/** Its number, whether it is paused, and whether it has limits or groups; see queueFlags in common.lua. */
export function queueFlags({ num, paused, traffic }: Omit<QueueRow, 'name'>): string {
  return `${num},${paused ? 1 : 0},${traffic ? 1 : 0}`
}

/** `pairs`: of each queue its name and its flags. */
export function readQueues(pairs: readonly string[]): QueueRow[] {
  const rows: QueueRow[] = []
  for (let i = 0; i < pairs.length; i += 2) {
    const [num, paused, traffic] = (pairs[i + 1] as string).split(',')
    rows.push({
      num: Number(num),
      name: pairs[i] as string,
      paused: paused === '1',
      traffic: traffic === '1',
    })
  }
  return rows
}
