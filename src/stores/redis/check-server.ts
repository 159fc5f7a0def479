import { MillraceError } from '../../core/errors.js'
import type { CompiledDurability } from './durability.js'
import { isReply } from './errors.js'
import type { Line } from './line.js'

/** Refuses a server on which jobs would be lost, and says in words what one may lose that is good enough. */
export async function checkServer(
  line: Line,
  durability: CompiledDurability | undefined,
  followsCluster: boolean,
): Promise<readonly string[]> {
  const facts = await readFacts(line)
  checkVersion(facts)
  checkPolicy(facts)
  if (durability?.command === 'WAITAOF') checkWaitAof(facts, durability)
  return [
    policyWarning(facts),
    persistenceWarning(facts),
    replicationWarning(facts, durability),
    clusterWarning(facts, followsCluster),
  ].filter((warning) => warning !== undefined)
}

/** Undefined: the server does not tell. */
interface Facts {
  readonly version: string | undefined
  readonly policy: string | undefined
  readonly appendOnly: string | undefined
  readonly fsync: string | undefined
  /** When snapshots are taken, as 'seconds changes …'; '' for never. */
  readonly save: string | undefined
  readonly replicas: number
  readonly isClusterNode: boolean
}

/** CONFIG is forbidden in many services; INFO tells some of it. */
async function readFacts(line: Line): Promise<Facts> {
  const settings = ['maxmemory-policy', 'appendonly', 'appendfsync', 'save']
  const [text, ...replies] = await line.ask([
    ['INFO'],
    ...settings.map((name) => ['CONFIG', 'GET', name] as const),
  ])
  if (isReply(text) && !text.message.startsWith('NOPERM')) throw text
  const info = parseInfo(isReply(text) ? '' : String(text))
  const [policy, appendOnly, fsync, save] = replies.map((reply) =>
    Array.isArray(reply) && reply.length > 1 ? String(reply[1]) : undefined,
  )
  return {
    version: info.get('redis_version'),
    policy: policy ?? info.get('maxmemory_policy'),
    appendOnly: appendOnly ?? { 0: 'no', 1: 'yes' }[info.get('aof_enabled') ?? ''],
    fsync,
    save,
    replicas: Number(info.get('connected_slaves') ?? 0),
    isClusterNode: info.get('cluster_enabled') === '1',
  }
}

function parseInfo(text: string): Map<string, string> {
  return new Map(
    text.split(/\r?\n/).flatMap((line): [string, string][] => {
      const colon = line.indexOf(':')
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]]
    }),
  )
}

/** Valkey tells as 'redis_version' which Redis it is like. */
function checkVersion({ version }: Facts): void {
  if (version !== undefined && !isAtLeast(version, oldest))
    throw refused('redis_version', version, `Redis ${oldest.join('.')} or newer, or Valkey`, oldest.join('.'))
}

const oldest = [6, 2] as const

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [x = 0, y = 0] = version.split('.').map(Number)
  return x > major || (x === major && y >= minor)
}

function checkPolicy({ policy }: Facts): void {
  if (policy !== undefined && policy !== 'noeviction')
    throw refused(
      'maxmemory-policy',
      policy,
      "'noeviction': any other one throws jobs away when memory is short",
    )
}

function checkWaitAof({ version, appendOnly }: Facts, { local }: CompiledDurability): void {
  if (version !== undefined && !isAtLeast(version, [7, 2]))
    throw refused('redis_version', version, 'Redis 7.2 for durability.waitaof; use { wait: … }', '7.2')
  if (local > 0 && appendOnly === 'no')
    throw refused('appendonly', appendOnly, "'yes' for durability.waitaof.local")
}

function refused(field: string, value: unknown, expected: string, limit?: unknown): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the server has ${field} = '${value}'; Millrace needs ${expected}`,
    {
      field,
      value,
      limit,
    },
  )
}

function policyWarning({ policy }: Facts): string | undefined {
  if (policy === undefined)
    return "could not verify maxmemory-policy: make sure that it is 'noeviction', or jobs are thrown away when memory is short"
  return undefined
}

function persistenceWarning({ appendOnly, fsync, save }: Facts): string | undefined {
  if (appendOnly === undefined) return 'could not verify persistence: make sure that appendonly is on'
  if (appendOnly === 'yes') return appendWarning(fsync)
  if (save === undefined)
    return 'the append-only file is off, and snapshots could not be verified: at least everything since the last snapshot is lost when the server ends; set appendonly yes'
  if (save === '')
    return 'the server keeps nothing on disk: everything since the start is lost when the server ends; set appendonly yes'
  return 'the server keeps snapshots only: everything since the last one, often minutes, is lost when the server crashes; set appendonly yes'
}

function appendWarning(fsync: string | undefined): string | undefined {
  if (fsync === 'always') return undefined
  if (fsync === 'everysec')
    return 'the server writes its append-only file to disk every second: about one second, up to two, is lost when its machine crashes; appendfsync always loses nothing'
  if (fsync === 'no')
    return 'the server leaves it to its system when the append-only file gets to disk: about half a minute is lost when its machine crashes; appendfsync always loses nothing'
  return 'could not verify appendfsync: with everysec about one second, up to two, is lost when the machine of the server crashes'
}

function replicationWarning(
  { replicas }: Facts,
  durability: CompiledDurability | undefined,
): string | undefined {
  if (durability !== undefined && replicas < durability.replicas)
    return `the server has ${replicas} replicas and durability waits for ${durability.replicas}: until there are more, no write is acknowledged`
  if (durability !== undefined || replicas === 0) return undefined
  return "the server has replicas and durability is 'none': writes that had not reached the replica are lost at a failover; durability { wait: 1 } makes that rare"
}

/** A proxy may say so too, and be right. */
function clusterWarning({ isClusterNode }: Facts, followsCluster: boolean): string | undefined {
  if (!isClusterNode || followsCluster) return undefined
  return 'the server is a node of a cluster: when its slots move, jobs are not found any more; use redis+cluster://, or a Cluster as client'
}
