/**
 * Random flows, fans and batches, whose jobs fail, are cancelled, replayed and removed while their queues are paused
 * and resumed, against a model that knows nothing of how it is done (flows-model.ts).
 */
import { type AnyJob, defineJob, type JobContext } from 'millrace'
import { expect, test } from 'vitest'
import { Random } from '../chaos/random.js'
import { isRemote } from './engines.js'
import { FlowModel, maxAttempts, type NodePlan, type Policy } from './flows-model.js'
import { storeOf, testMill } from './mill.js'

const runs = Number(process.env.MILLRACE_RUNS ?? (isRemote ? 5 : 250))
const queues = ['a', 'b']
const nothing = { completed: 0, dead: 0 }

test(`${runs} random runs of flows come to the ends that a model foretells`, async () => {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  for (let run = 0; run < runs; run++) await randomRun(new Random(seed + run), `MILLRACE_SEED=${seed + run}`)
}, 600_000)

async function randomRun(random: Random, told: string): Promise<void> {
  const model = new FlowModel()
  const ran = new Map<string, number>()
  const seen = new Map<string, string[]>()
  const undone: string[] = []
  /** How often each has completed. */
  const times = new Map<string, number>()
  const trace: string[] = []
  /** Attempts that are still to fail. */
  const fails = new Map<string, number>()
  /** Ids of what a fan's step adds are the product's to choose. */
  const ids = new Map<string, string>()
  const names = new Map<string, string>()
  const idOf = (name: string) => ids.get(name) ?? name
  const behave = async ({ jobId, children }: JobContext, own = jobId) => {
    ran.set(own, (ran.get(own) ?? 0) + 1)
    const all: string[] = []
    for await (const { id, state } of children()) all.push(`${names.get(id) ?? id} ${state}`)
    seen.set(own, all.sort())
    const left = fails.get(own) ?? 0
    const done = (times.get(own) ?? 0) + 1
    if (left === 0) {
      times.set(own, done)
      return `${own} ${done}`
    }
    fails.set(own, left - 1)
    throw new Error('it fails')
  }
  const policy = {
    maxAttempts,
    retain: '30d',
    backoff: { type: 'fixed', initialDelay: 0, jitter: 'none' },
  } as const
  const work = defineJob({
    name: 'work',
    ...policy,
    run: (name: string | null, context) => behave(context, name ?? undefined),
  })
  const note = defineJob({ name: 'note', ...policy, run: (_: null, context) => behave(context) })
  const undo = defineJob({
    name: 'undo',
    queue: 'a',
    ...(random.chance(0.5) && { retain: nothing }),
    run: ({ result }: { result: string }) => void undone.push(result),
  })
  const fan = defineJob({
    name: 'fan',
    ...policy,
    async run(onFailure: 'fail' | 'continue' | 'ignore', context) {
      await learnNames(context.jobId)
      const { adds } = model.of(context.jobId)
      if (adds.length > 0) {
        const [first] = adds as [NodePlan]
        const options = { queue: first.queue, onFailure, ...(first.fleeting && { retain: nothing }) }
        const names = adds.map(({ id }) => id)
        for (const { id, fails: count } of adds) if (!fails.has(id)) fails.set(id, count)
        await context.step.children('s', work, names, options)
      }
      return behave(context)
    },
  })
  const jobs: AnyJob[] = [work, note, undo, fan]
  const mill = testMill({ jobs, worker: { queues, concurrency: random.pick([1, 3, 20]) } })
  const store = storeOf(mill)
  const paused = new Set<string>()
  const made: string[] = []
  const batches: string[] = []

  const others = random.pick([0, 0, 2])
  for (let step = 0; step < 25; step++) {
    await random.pick([
      add,
      add,
      drain,
      drain,
      drain,
      later,
      cancel,
      retry,
      retry,
      retry,
      remove,
      pause,
      grow,
      seal,
    ])()
  }
  for (const queue of paused) await mill.queue(queue).resume()
  paused.clear()
  await later()
  const live = [...model.nodes.values()].filter(({ isLive }) => isLive)
  expect(
    live.map(({ plan }) => plan.id),
    `${told}: the model itself comes to an end`,
  ).toEqual([])
  await mill.close()

  function plan(id: string, parents: readonly string[], more: Partial<NodePlan> = {}): NodePlan {
    const fleeting = random.chance(0.2)
    // Nobody waits for the last one of a tree or a chain; to undo the others, it would get a join above it.
    const policies: Policy[] = ['fail', 'fail', 'continue', 'ignore', 'compensate']
    const policy: Policy = parents.length === 0 ? 'fail' : random.pick(policies)
    const undone = random.chance(0.5)
    const made: NodePlan = {
      id,
      kind: random.chance(0.15) ? 'fan' : 'work',
      queue: random.pick(queues),
      policy,
      fails: random.pick([0, 0, 0, 1, 2, 3]),
      fleeting,
      undone,
      parents,
      ...more,
    }
    return made.kind === 'fan' ? withFan(made) : made
  }

  function withFan(made: NodePlan): NodePlan {
    const common = {
      kind: 'work',
      policy: 'continue',
      queue: random.pick(queues),
      fleeting: random.chance(0.3),
      undone: false,
    } as const
    const adds = Array.from({ length: random.integer(0, 3) }, (_, i) =>
      plan(`${made.id}.s.${String(i).padStart(7, '0')}`, [made.id], common),
    )
    return { ...made, fails: 0, adds, gathers: random.pick(['fail', 'continue', 'ignore']) }
  }

  function remember(plans: readonly NodePlan[]): void {
    for (const { id, fails: count, adds } of plans) {
      fails.set(id, count)
      if (adds !== undefined) remember(adds)
    }
  }

  function specOf({ kind, queue, policy, fleeting, undone, gathers }: NodePlan) {
    const options = { queue, ...(fleeting && { retain: nothing }) }
    const common = { options, onFailure: policy, ...(undone && { compensate: undo }) }
    return kind === 'fan' ? { job: fan, input: gathers, ...common } : { job: work, input: null, ...common }
  }

  async function add(): Promise<void> {
    const id = `f${made.length}`
    made.push(id)
    const kind = random.pick(['tree', 'tree', 'chain', 'graph', 'batch'])
    trace.push(`add ${kind} ${id}`)
    if (kind === 'batch') return addBatch(id)
    const plans = withStays(kind === 'tree' ? planTree(id) : kind === 'chain' ? planChain(id) : planGraph(id))
    remember(plans.plans)
    if (kind === 'tree') await mill.flow(plans.spec as never, { id })
    if (kind === 'chain') await mill.chain(plans.spec as never, { id })
    if (kind === 'graph') {
      const flow = await mill.flow({ nodes: plans.spec as never }, { id })
      const ids = (await flow.graph()).nodes
      return addNamed(plans.plans, new Map(ids.map((node) => [node.node, node.id])), id)
    }
    model.add(plans.plans)
  }

  function withStays({ spec, plans }: { spec: unknown; plans: readonly NodePlan[] }) {
    const undoes = plans.some(({ undone }) => undone) && plans.some(({ policy }) => policy === 'compensate')
    const stays = ({ id, parents, undone }: NodePlan) => {
      const waits = plans.some((other) => other.parents.includes(id))
      return undoes && parents.length > 0 && (waits || (undone && parents.length > 1))
    }
    return { spec, plans: plans.map((plan) => ({ ...plan, stays: stays(plan) })) }
  }

  /** Ids of a graph's jobs are the product's to choose. */
  function addNamed(
    plans: readonly NodePlan[],
    ids: ReadonlyMap<string | undefined, string>,
    root: string,
  ): void {
    const named = plans.map((plan) => {
      const id = ids.get(plan.id) as string
      const parents = plan.parents.map((parent) => ids.get(parent) ?? root)
      return { ...plan, id, parents, kind: 'work' as const, policy: plan.policy }
    })
    remember(named)
    const known = new Set(named.map(({ id }) => id))
    const joins: NodePlan[] = known.has(root)
      ? []
      : [
          {
            id: root,
            kind: 'join',
            queue: (named[0] as NodePlan).queue,
            policy: 'fail',
            fails: 0,
            fleeting: false,
            undone: false,
            parents: [],
          },
        ]
    model.add([...joins, ...named])
  }

  function planTree(root: string) {
    const plans: NodePlan[] = []
    let count = 0
    const grow = (parents: readonly string[], depth: number): unknown => {
      const ordinal = count++
      const id = ordinal === 0 ? root : `${root}.${String(ordinal).padStart(7, '0')}`
      const own = plan(id, parents)
      plans.push(own)
      const many = depth === 0 ? 0 : random.integer(0, 3)
      const children = Array.from({ length: many }, () => grow([id], depth - 1))
      return { ...specOf(own), ...(many > 0 && { children }) }
    }
    return { spec: grow([], 3), plans }
  }

  function planChain(root: string) {
    const length = random.integer(1, 4)
    const plans = Array.from({ length }, (_, i) => {
      const idOf = (n: number) => (n === 0 ? root : `${root}.${String(n).padStart(7, '0')}`)
      return plan(idOf(i), i === 0 ? [] : [idOf(i - 1)])
    })
    return { spec: plans.map(specOf).reverse(), plans }
  }

  /** Each node waits for some of those behind it. */
  function planGraph(_: string) {
    const size = random.integer(1, 6)
    const names = Array.from({ length: size }, (_, i) => `n${i}`)
    const after = names.map((_, i) => names.slice(i + 1).filter(() => random.chance(0.4)))
    const hasParent = (name: string) => after.some((list) => list.includes(name))
    const joins = names.filter((name) => !hasParent(name)).length > 1
    const plans = names.map((name) => {
      const waiters = names.filter((_, i) => after[i]?.includes(name))
      return plan(name, waiters.length > 0 ? waiters : joins ? ['join'] : [], { kind: 'work' })
    })
    const queue = (plans.find(({ id }) => !hasParent(id)) as NodePlan).queue
    const first = plans.findIndex(({ id }) => !hasParent(id))
    const sorted = [plans[first] as NodePlan, ...plans.filter((_, i) => i !== first)]
    void queue
    const spec = Object.fromEntries(plans.map((own, i) => [own.id, { ...specOf(own), after: after[i] }]))
    return { spec, plans: sorted }
  }

  async function addBatch(id: string): Promise<void> {
    const own = plan(id, [], { kind: 'batch', fails: 0 })
    const callback = {
      job: note,
      input: null,
      options: { queue: own.queue, ...(own.fleeting && { retain: nothing }) },
    }
    await mill.batch({
      id,
      onComplete: callback,
      onSuccess: callback,
      onDead: callback,
      queue: own.queue,
      patience: '5m',
    })
    model.add([own], true)
    batches.push(id)
    await grow(id)
  }

  async function grow(id = batches.length === 0 ? undefined : random.pick(batches)): Promise<void> {
    if (id === undefined) return
    const plans = Array.from({ length: random.integer(1, 3) }, (_, i) =>
      plan(`${id}-${model.nodes.size}-${i}`, [id], { kind: 'work', policy: 'continue', undone: false }),
    )
    remember(plans)
    const takes = model.takesMore(id)
    trace.push(`grow ${id} by ${plans.length}: ${takes}`)
    for (const own of plans) {
      const options = { id: own.id, queue: own.queue, ...(own.fleeting && { retain: nothing }) }
      const added = mill.batch(id).enqueue(work, null, options)
      if (takes) await added
      else await expect(added, `${told}: ${id} takes no more`).rejects.toMatchObject({ code: 'FLOW_DONE' })
    }
    if (takes) model.add(plans)
  }

  async function seal(): Promise<void> {
    if (batches.length === 0) return
    const id = random.pick(batches)
    if (model.of(id).state === 'gone') return
    trace.push(`seal ${id}`)
    await mill.batch(id).seal()
    model.seal(id)
  }

  async function drain(): Promise<void> {
    trace.push(`drain, paused ${[...paused].join()}`)
    await together(async () => {
      await mill.drain()
      // Who has to undo looks again until nothing runs below.
      await mill.advance('2s')
    })
    model.drain(queues.filter((queue) => !paused.has(queue)))
    await compare()
  }

  /** With more workers than one. */
  async function together(body: () => Promise<void>): Promise<void> {
    const workers = Array.from({ length: others }, () =>
      mill.worker({ queues, concurrency: 2, handleSignals: false }),
    )
    await Promise.all(workers.map((worker) => worker.start()))
    await body()
    await Promise.all(workers.map((worker) => worker.stop()))
  }

  /** Open batches run out of patience on the way. */
  async function later(): Promise<void> {
    trace.push(`later, paused ${[...paused].join()}`)
    await together(async () => {
      await mill.drain()
      await mill.advance('6m')
    })
    const running = queues.filter((queue) => !paused.has(queue))
    model.drain(running)
    for (const id of batches) model.losePatience(id)
    model.drain(running)
    await compare()
  }

  async function cancel(): Promise<void> {
    const id = anyId()
    if (id === undefined || model.of(id).state === 'gone') return
    trace.push(`cancel ${id} ${model.of(id).state}`)
    await mill.job(idOf(id)).cancel()
    model.cancel(id)
  }

  async function retry(): Promise<void> {
    const failed = [...model.nodes.values()].filter(({ state }) => state === 'dead' || state === 'cancelled')
    const pool = random.chance(0.8) && failed.length > 0 ? failed : [...model.nodes.values()]
    const node = pool.length === 0 ? undefined : random.pick(pool)
    if (node === undefined || node.isLive || node.state === 'gone') return
    // Its callbacks have been told; one that is not kept would be told again.
    if (node.plan.kind === 'batch' && node.state === 'completed') return
    const { id } = node.plan
    trace.push(`retry ${id} ${node.state}`)
    await mill.dead.retry(idOf(id))
    model.retry(id)
  }

  async function remove(): Promise<void> {
    const id = anyId()
    if (id === undefined || model.of(id).state === 'gone') return
    trace.push(`remove ${id} ${model.of(id).state}`)
    await store.operate({ ids: [idOf(id)] }, { do: 'remove' })
    model.remove(id)
  }

  async function pause(): Promise<void> {
    const queue = random.pick(queues)
    trace.push(`${paused.has(queue) ? 'resume' : 'pause'} ${queue}`)
    if (paused.delete(queue)) return mill.queue(queue).resume()
    paused.add(queue)
    await mill.queue(queue).pause()
  }

  async function learnNames(fan: string): Promise<void> {
    const steps = (await store.trail(fan))?.steps ?? []
    const kept = steps.find(({ name }) => name === 's')
    if (kept?.value === undefined) return
    const { id } = JSON.parse(kept.value)
    model.of(fan).adds.forEach((plan, i) => {
      const real = `${id}.${String(i).padStart(7, '0')}`
      ids.set(plan.id, real)
      names.set(real, plan.id)
    })
  }

  function anyId(): string | undefined {
    return model.nodes.size === 0 ? undefined : random.pick([...model.nodes.keys()])
  }

  async function compare(): Promise<void> {
    const nodes = [...model.nodes.values()]
    for (const { plan } of nodes) if (plan.kind === 'fan') await learnNames(plan.id)
    const records = await store.get(nodes.map(({ plan }) => idOf(plan.id)))
    for (const [i, node] of nodes.entries()) {
      const { id, stays, fleeting } = node.plan
      // When it is over, some time passes before they go.
      const mayBeGone = stays && fleeting && !node.isLive && model.isOver(id, ['completed', 'gone'])
      if (mayBeGone && records[i] === undefined) node.state = 'gone'
    }
    // Who is to look again stands in line when its time has come and its queue is paused.
    const plainly = (state: string) => (state === 'scheduled' ? 'pending' : state)
    const states = (of: (i: number) => string) => nodes.map(({ plan }, i) => `${plan.id}: ${plainly(of(i))}`)
    const actual = states((i) => records[i]?.state ?? 'gone')
    const context = () => `${told}\n${trace.join('\n')}`
    expect(actual, context()).toEqual(states((i) => nodes[i]?.state ?? ''))
    const counted = nodes.filter(({ plan }) => plan.kind === 'work' || plan.kind === 'note')
    expect(
      counted.map(({ plan }) => `${plan.id} ran ${ran.get(plan.id) ?? 0}`),
      context(),
    ).toEqual(counted.map(({ plan, runs }) => `${plan.id} ran ${runs}`))
    const parents = counted.filter(({ plan, runs }) => plan.kind === 'work' && runs > 0)
    expect(
      parents.map(({ plan }) => [plan.id, seen.get(plan.id)]),
      context(),
    ).toEqual(parents.map(({ plan, seen }) => [plan.id, seen]))
    if (paused.size > 0) return
    const isUnsure = (done: string) => model.mayBeUndone.has(done) && !model.undone.has(done)
    expect(undone.filter((done) => !isUnsure(done)).sort(), context()).toEqual([...model.undone].sort())
    expect(new Set(undone).size, `${context()}: each is undone once`).toBe(undone.length)
  }
}
