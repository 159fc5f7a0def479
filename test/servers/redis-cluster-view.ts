/** What one node of a cluster knows about all of them: CLUSTER NODES. */
import { ask } from './redis-process.js'

export interface NodeView {
  readonly id: string
  readonly port: number
  readonly flags: readonly string[]
  readonly isMaster: boolean
  readonly isMyself: boolean
  /** The id of the master that it copies. */
  readonly masterId: string | undefined
  readonly epoch: number
  readonly linked: boolean
  /** First and last of each range. */
  readonly slots: readonly (readonly [number, number])[]
}

export async function viewOf(port: number): Promise<NodeView[]> {
  const text = await ask(port, (redis) => redis.call('CLUSTER', 'NODES'))
  return String(text).trim().split('\n').map(parse)
}

export function owns(node: NodeView, slot: number): boolean {
  return node.isMaster && node.slots.some(([from, to]) => from <= slot && slot <= to)
}

/** id address flags master ping pong epoch link slots… */
function parse(line: string): NodeView {
  const [id = '', address = '', flagList = '', master, , , epoch, link, ...ranges] = line.split(' ')
  const flags = flagList.split(',')
  return {
    id,
    port: Number(/:(\d+)/.exec(address)?.[1]),
    flags,
    isMaster: flags.includes('master'),
    isMyself: flags.includes('myself'),
    masterId: master === '-' ? undefined : master,
    epoch: Number(epoch),
    linked: link === 'connected',
    // Those in brackets are on their way.
    slots: ranges.filter((range) => !range.startsWith('[')).map(parseRange),
  }
}

function parseRange(range: string): readonly [number, number] {
  const [from, to = from] = range.split('-').map(Number)
  return [from as number, to as number]
}
