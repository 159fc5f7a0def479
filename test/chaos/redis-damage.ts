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
  /** The place that a job waits in, by its ticket: as the place has it, and as what is known of its wait does. */
  readonly standing: Map<string, string>
  readonly waits: Map<string, string>
  /** The numbers of the gates of jobs that wait and that run; a star for one that only the desk ends. */
  readonly waiting: string[]
  readonly running: string[]
  /** How many jobs of a group wait and run, by the number of its gate. */
  readonly tallies: Map<string, { readonly pending: number; readonly running: number }>
  /** What is kept of parents, by their positions. */
  readonly parents: Map<string, Parent>
  /** For each of their children whether it is still waited for. */
  readonly links: Map<string, boolean[]>
  /** What is marked as gone, and what is in the lists of lines. */
  readonly gone: ReadonlySet<string>
  readonly listed: Set<string>
}

interface Parent {
  /** How many have not ended, and one more while more may come. */
  readonly waiting: number
  readonly isOpen: boolean
  readonly size: number
}

/** 'ok', or the first things that do not fit together. */
export async function damageOf(redis: Redis, root: string): Promise<string> {
  const found = await read(redis, root)
  const damage = checks.flatMap((check) => check(found))
  return damage.length === 0 ? 'ok' : damage.slice(0, 5).join('; ')
}

const checks = [strays, wrongLeases, wrongCounts, wrongWaits, wrongTallies, wrongParents, goneFromNowhere]

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

/** Whoever stands in a place is known to wait there, and the reverse. */
function wrongWaits({ standing, waits }: Contents): string[] {
  const all = new Set([...standing.keys(), ...waits.keys()])
  return [...all].flatMap((ticket) => {
    const [stands, waitsIn] = [standing.get(ticket), waits.get(ticket)]
    return stands === waitsIn
      ? []
      : [`${ticket} stands in ${stands ?? 'no place'} and waits in ${waitsIn ?? 'none'}`]
  })
}

/** A tally counts the jobs of its group, and goes with the last one. Gates of jobs that only the desk ends are not known here. */
function wrongTallies({ tallies, waiting, running }: Contents): string[] {
  const [waits, runs] = [countBy(waiting), countBy(running)]
  return [...tallies].flatMap(([num, tally]) => {
    const [wait, run] = [waits.get(num) ?? 0, runs.get(num) ?? 0]
    const most = run + (runs.get('*') ?? 0)
    const isRight = tally.pending === wait && tally.running >= run && tally.running <= most
    if (isRight && tally.pending + tally.running > 0) return []
    return [`group ${num} has ${wait} and ${run} jobs, and counts ${tally.pending} and ${tally.running}`]
  })
}

/** A parent waits for those of its children that have not ended. */
function wrongParents({ parents, links }: Contents): string[] {
  const all = new Set([...parents.keys(), ...links.keys()])
  return [...all].flatMap((position) => {
    const parent = parents.get(position)
    const own = links.get(position) ?? []
    if (parent === undefined) return [`${position} has ${own.length} children, and is no parent`]
    const open = own.filter((isOpen) => isOpen).length + (parent.isOpen ? 1 : 0)
    return parent.waiting === open && parent.size === own.length
      ? []
      : [
          `parent ${position} waits for ${parent.waiting} of ${parent.size}, and has links to ${open} of ${own.length}`,
        ]
  })
}

/** What has left the middle of a list is marked until the list has passed it. */
function goneFromNowhere({ gone, listed }: Contents): string[] {
  return [...gone].flatMap((ticket) => (listed.has(ticket) ? [] : [`${ticket} is gone from no list`]))
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
  const found: Contents = {
    kinds: new Map(),
    places: new Map(),
    tokens: new Map(),
    leases: new Map(),
    held: new Map(),
    counts: new Map(),
    standing: new Map(),
    waits: new Map(),
    waiting: [],
    running: [],
    tallies: new Map(),
    parents: new Map(),
    links: new Map(),
    gone: new Set(await redis.smembers(`${root}:gone`)),
    listed: new Set(),
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
        for (const [ticket, value] of await entriesOf(redis, full)) {
          put([ticket], 'running')
          found.tokens.set(ticket, claimIn(value))
          found.running.push(...gatesIn(/~([^~]*)$/.exec(value)?.[1] ?? /\*$/.exec(value)?.[0]))
        }
        break
      case 'line':
        for (const ticket of (await redis.lrange(full, 0, -1)).map(ticketIn)) {
          found.listed.add(ticket)
          if (!found.gone.has(ticket)) put([ticket], key)
        }
        break
      case 'place': {
        const tickets = await redis.zrange(full, '0', '-1')
        put(tickets, `line ${key}`)
        for (const ticket of tickets) found.standing.set(ticket, name)
        break
      }
      case 'waits':
        for (const [ticket, wait] of await entriesOf(redis, full)) {
          const fields = wait.split(';')
          found.waits.set(ticket, fields[0] as string)
          found.waiting.push(...gatesIn(fields[4]))
        }
        break
      case 'tallies':
        for (const [num, tally] of Object.entries(await redis.hgetallBuffer(full)))
          if (num !== '')
            found.tallies.set(num, { pending: tally.readUInt32BE(0), running: tally.readUInt32BE(4) })
        break
      case 'parents':
        for (const [position, text] of await entriesOf(redis, full))
          found.parents.set(position, parentIn(text))
        break
      case 'link':
        // One that is waited for does not begin with an end.
        found.links.set(
          name,
          (await redis.hvals(full)).map((link) => link.startsWith(';')),
        )
        break
      case 'back':
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

/** Of a hash, without the field that makes it a table. */
async function entriesOf(redis: Redis, key: string): Promise<[string, string][]> {
  return Object.entries(await redis.hgetall(key)).filter(([field]) => field !== '')
}

/** As common.lua reads what `running` has of a job. */
function claimIn(value: string): string {
  return value.replace(/[*+~][^*+~]*$/, '')
}

/** As common.lua reads an entry in the list of a line. */
function ticketIn(entry: string): string {
  return entry.replace(/(?:\*|[0-9a-f]{11}~)$/, '')
}

function gatesIn(text = ''): string[] {
  return text === '' ? [] : text.split(':')
}

function parentIn(text: string): Parent {
  const [waiting, , state] = JSON.parse(text) as [number, string | null, string]
  const { fanned, open, size } = JSON.parse(state) as { fanned: number; open: boolean; size: number }
  return { waiting: waiting + fanned, isOpen: open, size }
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
