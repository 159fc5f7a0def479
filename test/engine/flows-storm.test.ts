/**
 * Operators cancel, replay and remove jobs of flows, fans and batches while workers run them. What must have run is
 * the model's to say (flows-random.test.ts); here nothing may stay behind, whatever comes between what.
 */
import { defineJob, isMillraceError, type JobDefinition, type Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { Random } from '../chaos/random.js'
import { realMill } from './mill.js'

const rounds = Number(process.env.MILLRACE_RUNS ?? 4)
const stormMs = 400

test(`${rounds} storms leave no job behind that waits for nothing`, async () => {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  for (let round = 0; round < rounds; round++)
    await storm(new Random(seed + round), `MILLRACE_SEED=${seed + round}`)
}, 600_000)

async function storm(random: Random, told: string): Promise<void> {
  const early: string[] = []
  const backoff = { type: 'fixed', initialDelay: 1, jitter: 'none' } as const
  const leaf = defineJob({
    name: 'leaf',
    maxAttempts: 2,
    backoff,
    async run(_: null) {
      if (random.chance(0.5)) await sleep(random.integer(0, 4))
      if (random.chance(0.2)) throw new Error('bad luck')
    },
  })
  const fan = defineJob({
    name: 'fan',
    maxAttempts: 2,
    backoff,
    async run(_: null, { step }) {
      const onFailure = random.pick(['fail', 'continue', 'ignore'] as const)
      await step.children('parts', leaf, Array(random.integer(1, 5)).fill(null), {
        onFailure: onFailure as 'fail',
      })
    },
  })
  const mill = realMill({ jobs: [leaf, fan] })
  mill.on('error', ({ error }) => early.push(String(error)))
  const workers = [1, 3, 10].map((concurrency) =>
    mill.worker({ concurrency, poll: '20ms', abandonAfter: '1s', handleSignals: false }),
  )
  await Promise.all(workers.map((worker) => worker.start()))

  const ids: string[] = []
  const end = Date.now() + stormMs
  const adding = async () => {
    while (Date.now() < end) ids.push(...(await add(mill, random, leaf, fan)))
  }
  const operating = async () => {
    while (Date.now() < end) {
      await sleep(random.integer(0, 3))
      if (ids.length > 0) await operate(mill, random, random.pick(ids))
    }
  }
  await Promise.all([adding(), operating(), operating(), operating()])
  await expect
    .poll(() => live(mill), { timeout: 15_000, interval: 50, message: `${told}: jobs are left` })
    .toEqual({ blocked: 0, pending: 0, retrying: 0, running: 0, scheduled: 0 })
  expect(early, told).toEqual([])
  await mill.close()
}

async function add(
  mill: Millrace,
  random: Random,
  leaf: JobDefinition<null, null, void>,
  fan: JobDefinition<null, null, void>,
): Promise<string[]> {
  const node = () => {
    const onFailure = random.pick(['fail', 'continue', 'ignore', 'compensate'] as const)
    const options = random.chance(0.3) ? { retain: 0 } : {}
    return { job: random.chance(0.2) ? fan : leaf, input: null, onFailure, options }
  }
  const kind = random.pick(['tree', 'graph', 'batch'])
  if (kind === 'batch') {
    const told = { job: leaf, input: null }
    const batch = await mill.batch({ onComplete: told, onSuccess: told, onDead: told, patience: '300ms' })
    const jobs = await batch.enqueueMany(leaf, Array(random.integer(1, 6)).fill(null))
    if (random.chance(0.7)) await batch.seal()
    return [batch.id, ...jobs.map(({ id }) => id)]
  }
  const flow =
    kind === 'tree'
      ? await mill.flow({ ...node(), children: [{ ...node(), children: [node(), node()] }, node(), node()] })
      : await mill.flow({
          nodes: {
            a: node(),
            b: { ...node(), after: ['a'] },
            c: { ...node(), after: ['a'] },
            d: { ...node(), after: ['b', 'c'] },
            e: { ...node(), after: ['c'] },
          },
        })
  return (await flow.graph()).nodes.map(({ id }) => id)
}

async function operate(mill: Millrace, random: Random, id: string): Promise<void> {
  const act = random.pick([
    () => mill.job(id).cancel(),
    () => mill.dead.retry(id),
    () => mill.dead.retry(id),
    () => mill.dead.retry(id, { delay: 5 }),
    () => mill.dead.purge({ name: 'leaf' }),
  ])
  await act().catch((error: unknown) => {
    if (!isMillraceError(error, 'JOB_NOT_FOUND') && !isMillraceError(error, 'JOB_NOT_FINISHED')) throw error
  })
}

async function live(mill: Millrace) {
  const { blocked, pending, retrying, running, scheduled } = (await mill.stats()).states
  return { blocked, pending, retrying, running, scheduled }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
