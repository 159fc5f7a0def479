/** kill -9 between the end of a child and the release of its parent, and of those who add flows. */
import { type Arena, repeat, sleep } from '../arena.js'
import { engines } from '../engine.js'
import type { Armed } from '../fail-points.js'
import { type ChaosFamily, checkFamilies } from '../families.js'
import { fault } from '../fault.js'
import { fanned, type Work, work } from '../jobs.js'
import type { Random } from '../random.js'
import { settings } from '../settings.js'
import { killArmed } from './kill-at-fail-points.js'

const options = { maxCrashes: 1_000 }
const arms: readonly Armed[] = [
  { 'handler-done': 0.05 },
  { 'settle-sent': 0.05 },
  { 'dead-before': 0.1, claimed: 0.02 },
  { 'dead-after': 0.1, 'mid-commit': 0.05 },
  { 'step-before': 0.3, 'step-after': 0.3, 'renewal-after': 0.1 },
]

export const killsInFlows = [
  fault('flows', 1, async (arena) => {
    const families: ChaosFamily[] = []
    await arena.startWorker()
    const stopFeeding = repeat(async (n) => {
      const { pending, blocked } = await arena.counts()
      if (pending + blocked > 60) await sleep(15)
      else families.push(...(await addFamily(arena, `family-${n}`)))
    })
    await killArmed(arena, arms)
    await stopFeeding()
    return arena.judge({
      injected: arena.kills,
      inspect: ({ events, jobs }) => {
        for (const { invariant, text } of checkFamilies(events, jobs, families)) arena.accuse(invariant, text)
        return `${families.length} parents`
      },
    })
  }),
]

/** The process that adds a flow of several writes dies among them: the flow is whole, or dies of that. */
export const killFlowProducer = fault('flow-producer', 0.3, async (arena) => {
  await arena.startWorker()
  let left = arena.options.kills
  while (left-- > 0) {
    const victim = arena.launchProducer({ jobs: Number.MAX_SAFE_INTEGER, flows: true })
    await victim.ready
    await sleep(arena.random.between(0, 500 + 5 * engines[arena.options.engine].openMs))
    await arena.kill(victim)
  }
  await sleep(settings.flowPatienceMs)
  return arena.judge({
    injected: arena.kills,
    allowedErrors: ['FLOW_INCOMPLETE'],
    inspect: ({ jobs }) => {
      const ids = new Set(jobs.map(({ id }) => id))
      const roots = jobs.filter(({ id }) => id.endsWith('-flow'))
      for (const { id, state, failureCode = '' } of roots) {
        const isWhole = Array.from({ length: settings.flowParts }, (_, i) => partId(id, i + 1)).every(
          (part) => ids.has(part),
        )
        const isJudged = ['FLOW_INCOMPLETE', 'CHILD_FAILED'].includes(failureCode)
        if (state === 'completed' ? !isWhole : state !== 'dead' || !isJudged)
          arena.accuse('I10', `${id} is ${state} ${failureCode}; whole: ${isWhole}`)
      }
      const broken = roots.filter(({ state }) => state === 'dead').length
      return `${roots.length} flows, ${broken} of them never whole`
    },
  })
})

function partId(flow: string, ordinal: number): string {
  return `${flow}.${String(ordinal).padStart(7, '0')}`
}

/** One of everything in which jobs wait for others; each parent comes with what it is to be judged by. */
async function addFamily(arena: Arena, id: string): Promise<ChaosFamily[]> {
  const { mill, random } = arena
  const leaf = (onFailure: 'fail' | 'continue' = 'fail') =>
    ({ job: work, input: leafWork(random), options, onFailure }) as const
  const kind = random.pick(['tree', 'chain', 'graph', 'fan', 'batch'])
  if (kind === 'fan') {
    const parts = Array.from({ length: random.integer(1, 6) }, () => leafWork(random))
    const added = await arena.enqueueJob(fanned, { parts })
    return added === undefined ? [] : [family(added, parts.length, 'fan', [])]
  }
  if (kind === 'batch') {
    const told = { job: work, input: {}, options }
    const batch = await mill.batch({ id, onComplete: told, onSuccess: told, onDead: told })
    const members = await batch.enqueueMany(
      work,
      Array.from({ length: random.integer(1, 8) }, () => leafWork(random)),
      options,
    )
    await batch.seal()
    const children = members.map((member) => member.id)
    arena.acknowledge([id, ...children])
    return [family(id, children, 'batch', children)]
  }
  const policy = random.pick(['fail', 'continue'] as const)
  const flow =
    kind === 'tree'
      ? await mill.flow(
          {
            ...leaf(),
            children: [{ ...leaf(policy), children: [leaf(), leaf(policy)] }, leaf(policy), leaf(policy)],
          },
          { id },
        )
      : kind === 'chain'
        ? await mill.chain([leaf(policy), leaf(policy), leaf(policy)], { id })
        : await mill.flow(
            {
              nodes: {
                a: leaf(policy),
                b: { ...leaf(policy), after: ['a'] },
                c: { ...leaf(policy), after: ['a'] },
                d: { ...leaf(policy), after: ['b', 'c'] },
                e: { ...leaf(policy), after: ['c'] },
              },
            },
            { id },
          )
  const { nodes } = await flow.graph()
  arena.acknowledge(nodes.map((node) => node.id))
  const spared = nodes.filter((node) => node.onFailure === 'continue').map((node) => node.id)
  return nodes
    .filter(({ after }) => after.length > 0)
    .map(({ id, after }) => family(id, after, 'flow', spared))
}

function family(
  id: string,
  children: ChaosFamily['children'],
  kind: ChaosFamily['kind'],
  spared: readonly string[],
): ChaosFamily {
  return { id, children, kind, spared: new Set(spared) }
}

function leafWork(random: Random): Work {
  const luck = random.next()
  if (luck < 0.4) return {}
  if (luck < 0.8) return { sleep: random.integer(1, 15) }
  return luck < 0.9 ? { fails: 1 } : { doomed: true }
}
