/** Reads all that a store has in Redis and compares it: a script that was cut off in the middle would show here. */
import type { Redis } from 'ioredis'

const states = ['pending', 'scheduled', 'running', 'retrying', 'blocked', 'completed', 'dead', 'cancelled']

interface Contents {
  /** The kind of each job, by its ticket. */
  readonly kinds: Map<string, string>
  /** Where tickets are: 'running', 'line …' or the name of a state. */
  readonly places: Map<string, string[]>
  readonly tokens: Map<string, string>
  readonly leases: Map<string, Record<string, string>>
  /** Which claims a worker has. */
  readonly held: Map<string, string>
  readonly counts: Map<string, Record<string, string>>
}

/** 'ok', or the first things that do not fit together. */
export async function damageOf(redis: Redis, root: string): Promise<string> {
  const found = await read(redis, root)
  const damage = [...strays(found), ...wrongLeases(found), ...wrongCounts(found)]
  return damage.length === 0 ? 'ok' : damage.slice(0, 5).join('; ')
}

/** Each job is in one place, and each place has jobs only. */
function strays({ kinds, places }: Contents): string[] {
  const homeless = [...kinds.keys()].filter((ticket) => places.get(ticket)?.length !== 1)
  const unknown = [...places.keys()].filter((ticket) => !kinds.has(ticket))
  return [
    ...homeless.map((ticket) => `${ticket} is in ${places.get(ticket)?.join(' and ') ?? 'no place'}`),
    ...unknown.map(
      (ticket) => `${ticket} is in ${places.get(ticket)?.join(' and ')}, and there is no such job`,
    ),
  ]
}

/** A claim knows how many of its jobs run, and its worker knows of it. */
function wrongLeases({ tokens, leases, held }: Contents): string[] {
  const running = countBy([...tokens.values()])
  const all = new Set([...running.keys(), ...leases.keys()])
  return [...all].flatMap((token) => {
    const lease = leases.get(token)
    const isKnown = lease?.worker !== undefined && held.get(token) === lease.worker
    return isKnown && Number(lease.left) === running.get(token)
      ? []
      : [`claim ${token} of ${lease?.worker} has ${running.get(token) ?? 0} jobs and counts ${lease?.left}`]
  })
}

function wrongCounts({ kinds, places, counts }: Contents): string[] {
  const jobs = countBy([...kinds].map(([ticket, kind]) => `${kind} ${stateAt(places.get(ticket)?.[0])}`))
  const all = new Set([
    ...jobs.keys(),
    ...[...counts].flatMap(([kind, own]) => Object.keys(own).map((state) => `${kind} ${state}`)),
  ])
  return [...all].flatMap((key) => {
    const [kind = '', state = ''] = key.split(' ')
    if (!states.includes(state)) return []
    const counted = Number(counts.get(kind)?.[state] ?? 0)
    return counted === (jobs.get(key) ?? 0)
      ? []
      : [`kind ${kind} has ${jobs.get(key) ?? 0} ${state}, and counts ${counted}`]
  })
}

function stateAt(place = ''): string {
  return place.startsWith('line') ? 'pending' : place
}

function countBy(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

async function read(redis: Redis, root: string): Promise<Contents> {
  const keys = await namesOf(redis, root)
  const gone = new Set(await redis.smembers(`${root}:gone`))
  const found: Contents = {
    kinds: new Map(),
    places: new Map(),
    tokens: new Map(),
    leases: new Map(),
    held: new Map(),
    counts: new Map(),
  }
  const put = (tickets: readonly string[], place: string) => {
    for (const ticket of tickets) found.places.set(ticket, [...(found.places.get(ticket) ?? []), place])
  }
  for (const key of keys) {
    const [, letter = '', name = ''] = /^([a-z]+):(.*)$/.exec(key) ?? [key, key]
    const full = `${root}:${key}`
    switch (letter) {
      case 'j':
        for (const [field, body] of Object.entries(await redis.hgetall(full))) {
          if (body.startsWith('@')) continue // has moved to another shard
          const [kind = '', position = ''] = body.split(';')
          found.kinds.set(position + name + field, kind)
        }
        break
      case 'running':
        for (const [ticket, token] of Object.entries(await redis.hgetall(full))) {
          if (ticket === '') continue // it makes the hash a table
          put([ticket], 'running')
          found.tokens.set(ticket, token.replace(/\*$/, ''))
        }
        break
      case 'line':
        put(
          (await redis.lrange(full, 0, -1))
            .map((entry) => entry.replace(/\*$/, ''))
            .filter((ticket) => !gone.has(ticket)),
          key,
        )
        break
      case 'back':
      case 'place':
        put(await redis.zrange(full, '0', '-1'), `line ${key}`)
        break
      case 'state':
        put(await redis.zrange(full, '0', '-1'), states[Number(name)] ?? key)
        break
      case 'l':
        found.leases.set(name, await redis.hgetall(full))
        break
      case 'w':
        for (const token of await redis.smembers(full)) found.held.set(token, name)
        break
      case 'c':
        found.counts.set(name, await redis.hgetall(full))
        break
    }
  }
  return found
}

/** Without the root that all begin with. */
async function namesOf(redis: Redis, root: string): Promise<string[]> {
  const names = new Set<string>()
  for (let cursor = '0'; ; ) {
    const [next, keys] = await redis.scan(cursor, 'MATCH', `${root}:*`, 'COUNT', 1000)
    for (const key of keys) names.add(key.slice(root.length + 1))
    if (next === '0') return [...names]
    cursor = next
  }
}
