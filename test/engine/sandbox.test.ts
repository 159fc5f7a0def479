/** Handlers in threads and processes. They are built: what a sandbox loads, Node has to understand. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  type AnyJob,
  defineJob,
  fromModule,
  type Handler,
  jsonCodec,
  type Millrace,
  type SandboxOptions,
  type WorkerOptions,
} from 'millrace'
import { runJob } from 'millrace/testing'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { engine } from './engines.js'
import { file, realMill, signal, testMill, vanish } from './mill.js'

type Named = Record<string, Handler<null, unknown>>
type Handlers = typeof import('./fixtures/sandboxed.js')
type Gathered = Extract<Awaited<ReturnType<Handlers['gathers']>>, { named: unknown }>

const built = (name: string) => new URL(`../../.build/test/engine/fixtures/${name}.js`, import.meta.url)
const url = built('sandboxed')
const isGone = (pid: number) => {
  try {
    return !process.kill(pid, 0)
  } catch {
    return true
  }
}

/** What a sandbox is made of is no matter of the store: each kind with one of them, threads with the others. */
const types = engine === 'memory' ? (['thread', 'process'] as const) : (['thread'] as const)

describe.for(types)('a sandbox in a %s', (type) => {
  test('takes input and gives a result as the codec keeps them', async () => {
    const job = defineJob({ name: 'default', run: fromModule<Handlers>(url), sandbox: { type } })
    const mill = await started([job])
    const input = { n: -0, at: new Date(7) }
    const result = await (await mill.enqueue(job, input)).result({ timeout: '10s' })
    expect(result).toEqual({ ...input, big: 2n ** 64n })
  })

  test('tells the handler all about its job', async () => {
    const job = define('tellsAll', { type })
    const mill = await started([job])
    const before = Date.now()
    const handle = await mill.enqueue(job, null, { id: 'one', tags: ['a'], metadata: { of: new Date(3) } })
    const { createdAt, ...rest } = await handle.result({ timeout: '10s' })
    expect(createdAt.getTime()).toBeGreaterThanOrEqual(before)
    expect(rest).toEqual({
      jobId: 'one',
      name: 'tellsAll',
      queue: 'default',
      attempt: 1,
      maxAttempts: 1,
      idempotencyKey: 'one',
      tags: ['a'],
      metadata: { of: new Date(3) },
    })
  })

  test('takes steps as ever; a run that waits leaves its sandbox to others', async () => {
    const log = file()
    writeFileSync(log, '')
    const job = defineJob({
      name: 'takesSteps',
      run: fromModule<Handlers, 'takesSteps'>(url, 'takesSteps'),
      backoff: { type: 'fixed', initialDelay: 10, jitter: 'none' },
      sandbox: { type },
    })
    const mill = await started([job], { sandbox: { size: 1 } })
    const handle = await mill.enqueue(job, log, { id: 'stepped' })
    await vi.waitFor(async () => {
      const open = (await handle.steps()).find(({ waiting }) => waiting)
      expect([await handle.state(), open?.name]).toEqual(['blocked', 'wait:word'])
    }, 10_000)
    await mill.signal('word', 'hello')
    const { first, word, refused, both, last } = await handle.result({ timeout: '10s' })
    expect({ word, refused, both }).toEqual({
      word: 'hello',
      refused: 'STORE_REFUSED',
      both: { a: 1, b: new Set([2]) },
    })
    expect(first).toEqual({ ...last, key: 'stepped:first', at: new Date(7) })
    expect(readFileSync(log, 'utf8')).toBe('f')
    expect(await handle.get()).toMatchObject({ attempt: 2 })
  })

  test('a wait that a failed attempt began ends when it would have', async () => {
    const backoff = { type: 'fixed', initialDelay: 200, jitter: 'none' } as const
    const job = define('failsWaiting', { type }, { maxAttempts: 2, backoff })
    const mill = await started([job])
    const handle = await mill.enqueue(job, null)
    await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    const [wait] = await handle.steps()
    const [, second] = await handle.attempts()
    expect(wait).toMatchObject({ name: 'wait:never', waiting: true })
    expect(Number(wait?.until) - 3_600_000).toBeLessThan(Number(second?.startedAt))
  })

  test('hands on progress and logs, and gathers what comes in a flood', async () => {
    const [reports, floods] = [define('reports', { type }), define('floods', { type })]
    const mill = await started([reports, floods])
    let events = 0
    mill.on('progress', () => events++)
    const short = await mill.enqueue(reports, 3)
    await short.result({ timeout: '10s' })
    expect((await short.get())?.progress).toEqual(new Map([['step', 3]]))
    expect((await short.logs()).map(({ level, text }) => `${level}: ${text}`)).toEqual([
      'warn: step 1',
      'info: step 2',
      'info: step 3',
      'info: the end',
    ])
    events = 0
    const flood = await mill.enqueue(floods, 100_000)
    expect(await flood.result({ timeout: '20s' })).toBe(100_000)
    expect((await flood.get())?.progress).toBe(100_000)
    expect((await flood.logs()).at(-1)?.text).toBe('line 100000')
    expect(events).toBeLessThan(1_000)
  })

  test('hears the signal, and serves the next job after a handler that heeded it', async () => {
    const [heeds, where] = [define('heeds', { type }, { timeout: '1s' }), define('where', { type })]
    const mill = await started([heeds, where])
    const place = await (await mill.enqueue(where, 0)).result({ timeout: '10s' })
    const late = await mill.enqueue(heeds, null)
    await expect(late.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await late.get())?.failure).toMatchObject({ code: 'JOB_TIMEOUT' })
    expect(await (await mill.enqueue(where, 0)).result({ timeout: '10s' })).toEqual(place)
  })

  test('that hears the signal has its time to tidy up', async () => {
    const [tidies, where] = [define('tidiesUp', { type }, { timeout: '1s' }), define('where', { type })]
    const mill = await started([tidies, where], { abandonAfter: '1m' })
    const abandoned = vi.fn()
    mill.on('abandoned', abandoned)
    const place = await (await mill.enqueue(where, 0)).result({ timeout: '10s' })
    const handle = await mill.enqueue(tidies, 1_000)
    await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await handle.get())?.failure).toMatchObject({ code: 'JOB_TIMEOUT' })
    expect((await handle.logs()).map(({ text }) => text)).toEqual(['tidy'])
    expect(abandoned).not.toHaveBeenCalled()
    expect(await (await mill.enqueue(where, 0)).result({ timeout: '10s' })).toEqual(place)
  })

  test('that hears the signal before its module is loaded does not begin', async () => {
    const run = fromModule<typeof import('./fixtures/loads-slowly.js')>(built('loads-slowly'))
    const job = defineJob({ name: 'late', run, sandbox: { type }, timeout: '1s', maxAttempts: 1 })
    const mill = await started([job], { abandonAfter: '1m' })
    const handle = await mill.enqueue(job, null)
    await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await handle.get())?.failure).toMatchObject({ code: 'JOB_TIMEOUT' })
  })

  test('adds jobs through its worker, if that knows them', async () => {
    const { known } = await import('./fixtures/sandboxed.js')
    const adds = define('adds', { type })
    const mill = await started([adds, known])
    const id = await (await mill.enqueue(adds, 'known')).result({ timeout: '10s' })
    expect(await mill.job(id).get()).toMatchObject({ state: 'scheduled', input: 7, tags: ['of-a-sandbox'] })
    const failed = await mill.enqueue(adds, 'unknown')
    await expect(failed.result({ timeout: '10s' })).rejects.toThrow('add it to new Millrace({ jobs })')
    expect((await failed.get())?.failure?.code).toBe('INVALID_OPTION')
  })

  test('reads what its children gave, and waits for those that it adds itself', async () => {
    const { known, failing } = await import('./fixtures/sandboxed.js')
    const gathers = define('gathers', { type })
    const mill = await started([gathers, known, failing], { sandbox: { size: 1 } })
    const flow = await mill.flow({
      nodes: {
        first: { job: known, input: 4 },
        broken: { job: failing, input: 0, onFailure: 'continue' },
        last: { job: gathers, input: [5, 6], after: ['first', 'broken'] },
      },
    })
    const { pid, threadId, isMainThread, ...seen } = (await flow.result({ timeout: '20s' })) as Gathered
    expect(type === 'thread' ? threadId : pid).not.toBe(type === 'thread' ? 0 : process.pid)
    expect(isMainThread).toBe(type === 'process')
    expect({ ...seen, named: seen.named.sort() }).toEqual({
      named: [
        ['broken', 'dead', '0 is not enough'],
        ['first', 'completed', 4],
      ],
      first: 4,
      missing: 'CHILD_FAILED',
      added: [5, 6],
      failed: '1 is not enough',
      all: [4],
    })
  })

  test('a step whose child dies fails the handler there', async () => {
    const { known, failing } = await import('./fixtures/sandboxed.js')
    const fans = define('fansOut', { type })
    const mill = await started([fans, known, failing])
    const handle = await mill.enqueue(fans, 1)
    await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    const root = { name: 'failing', message: '1 is not enough' }
    expect((await handle.get())?.failure).toMatchObject({ code: 'CHILD_FAILED', root })
  })

  test('snoozes and cancels', async () => {
    const job = define('directs', { type })
    const mill = await started([job])
    const ended = signal<string | undefined>()
    mill.on('cancelled', ({ reason }) => ended.give(reason))
    await mill.enqueue(job, 'cancel')
    expect(await ended.promise).toBe('no more')
    for (const [how, hours] of [['snooze', 1] as const, ['throw snooze', 2] as const]) {
      const handle = await mill.enqueue(job, how)
      await vi.waitUntil(async () => (await handle.state()) === 'scheduled', { timeout: 10_000 })
      expect(Number((await handle.get())?.dueAt) - Date.now()).toBeGreaterThan((hours - 0.1) * 3_600_000)
      expect((await handle.get())?.attempt).toBe(0)
    }
  })

  test('fails as the handler does', async () => {
    const seen: unknown[] = []
    const retryable = (error: unknown) => {
      seen.push(error)
      return true
    }
    const job = define('fails', { type }, { maxAttempts: 2, retryable })
    const mill = await started([job])
    const failedBy = async (how: Parameters<Handlers['fails']>[0]) => {
      const handle = await mill.enqueue(job, how)
      await vi.waitUntil(async () => (await handle.get())?.failure !== undefined, { timeout: 10_000 })
      return handle.get()
    }
    const plain = await failedBy('plainly')
    expect(plain).toMatchObject({ state: 'retrying', failure: { name: 'TypeError', message: 'of its own' } })
    expect(plain?.failure?.stack).toMatch(/fixtures\/sandboxed\.js[\s\S]*caused by: Error: deeper/)
    expect(seen[0]).toBeInstanceOf(TypeError)
    expect(seen[0]).toMatchObject({ status: 418 })
    expect(await failedBy('for good')).toMatchObject({ state: 'dead', attempt: 1 })
    const later = await failedBy('for now')
    expect(Number(later?.dueAt) - Date.now()).toBeGreaterThan(2.9 * 3_600_000)
    expect((await failedBy('with text'))?.failure?.message).toBe('threw just text')
    expect((await failedBy('hostilely'))?.state).toBe('retrying')
  })

  test('refuses a result as a handler of this process would', async () => {
    const apart = define('returnsItself', { type })
    const here = defineJob({ name: 'here', run: circular })
    const mill = await started([apart, here])
    const failures = []
    for (const job of [apart, here]) {
      const handle = await mill.enqueue(job as typeof here, null)
      await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
      failures.push((await handle.get())?.failure)
    }
    expect(failures[0]?.code).toBe('PAYLOAD_NOT_SERIALISABLE')
    expect(failures[0]?.message).toBe(failures[1]?.message)
  })

  test.for([
    ['exit', 'the sandbox of this job exited with code 7'],
    ['memory', 'the sandbox of this job ran out of memory: its heap reached the limit of 40 MiB'],
    ['stray', 'the sandbox of this job died of an error that nobody caught: nobody cares'],
    ['uncaught', 'the sandbox of this job died of an error that nobody caught: out of the blue'],
    // In a thread this would be the end of the tests.
    ...(type === 'process' ? [['abort', 'the sandbox of this job aborted (SIGABRT)'] as const] : []),
  ] as const)('that dies (%s) fails its own job and no other', async ([how, message]) => {
    const [dies, where] = [
      define('dies', { type, memory: 40 }, { maxAttempts: 2 }),
      define('where', { type }),
    ]
    const mill = await started([dies, where], { sandbox: { size: 2 } })
    // What a process says before it dies is passed on; here it is only noise.
    vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    const neighbours = await mill.enqueueMany(where, [200, 200, 0])
    const handle = await mill.enqueue(dies, how)
    await vi.waitUntil(async () => (await handle.get())?.failure !== undefined, { timeout: 15_000 })
    const { state, attempt, crashes, failure } = (await handle.get()) ?? {}
    expect({ state, attempt, crashes }).toEqual({ state: 'retrying', attempt: 1, crashes: 0 })
    expect(failure?.code).toBe('SANDBOX_CRASHED')
    expect(failure?.message).toContain(message)
    if (how === 'uncaught') expect(failure?.stack).toContain('fixtures/sandboxed.js')
    vi.restoreAllMocks()
    for (const neighbour of neighbours) await neighbour.result({ timeout: '10s' })
    await (await mill.enqueue(where, 0)).result({ timeout: '10s' })
  })

  test('that never lets go is killed, and blocks neither leases nor other jobs', async () => {
    const loops = define('loops', { type }, { timeout: '1500ms' })
    const long = defineJob({
      name: 'long',
      run: async (_: null, { signal }) => {
        await new Promise((resolve) => setTimeout(resolve, 2_000))
        return signal.aborted
      },
    })
    const quick = defineJob({ name: 'quick', run: (n: number) => n })
    const mill = await started([loops, long, quick], { lease: '400ms', abandonAfter: '1m' })
    const told: string[] = []
    for (const event of ['lost', 'stalled', 'abandoned'] as const)
      mill.on(event, ({ name }) => told.push(`${event} ${name}`))
    const sibling = await mill.enqueue(long, null)
    const handle = await mill.enqueue(loops, null)
    await vi.waitUntil(async () => (await handle.state()) === 'running')
    for (let n = 0; n < 10; n++)
      expect(await (await mill.enqueue(quick, n)).result({ timeout: '1s' })).toBe(n)
    expect(await handle.state()).toBe('running')
    await expect(handle.result({ timeout: '5s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await handle.get())?.failure?.code).toBe('JOB_TIMEOUT')
    expect(await sibling.result({ timeout: '5s' })).toBe(false)
    expect((await sibling.get())?.attempt).toBe(1)
    expect(told).toEqual(['abandoned loops'])
  })

  test('that never lets go is killed on cancel, and its place is free again', async () => {
    const [loops, where] = [define('loops', { type }, { timeout: 0 }), define('where', { type })]
    const mill = await started([loops, where], { sandbox: { size: 1 }, abandonAfter: '1m' })
    const looping = signal()
    mill.on('log', () => looping.give())
    const { pid } = await (await mill.enqueue(where, 0)).result({ timeout: '10s' })
    const handle = await mill.enqueue(loops, null)
    await looping.promise
    const [next, never] = await mill.enqueueMany(where, [0, 0])
    await vi.waitUntil(async () => (await never?.state()) === 'running')
    await never?.cancel('not even begun')
    await expect(never?.result({ timeout: '5s' })).rejects.toThrow('not even begun')
    expect(await handle.cancel('enough')).toBe('asked')
    await expect(handle.result({ timeout: '5s' })).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
    await next?.result({ timeout: '10s' })
    if (type === 'process') expect(isGone(pid)).toBe(true)
  })

  test('is used again, and there are no more than allowed', async () => {
    const where = define('where', { type }, { timeout: '3s' })
    const mill = await started([where], { sandbox: { size: 2, warm: 2 } })
    await Promise.all(
      (await mill.enqueueMany(where, [200, 200])).map((job) => job.result({ timeout: '10s' })),
    )
    // In line for longer than their timeout, which counts from when they have their sandbox.
    const jobs = await mill.enqueueMany(where, Array(8).fill(1000))
    const places = await Promise.all(jobs.map((job) => job.result({ timeout: '15s' })))
    expect(new Set(places.map(({ pid, threadId }) => `${pid} ${threadId}`)).size).toBe(2)
    const apart =
      type === 'thread' ? places.every((p) => !p.isMainThread) : places.every((p) => p.pid !== process.pid)
    expect(apart).toBe(true)
  })

  test('ends with its worker, and what it left behind with it', async () => {
    const ticks = define('leavesTicking', { type })
    const mill = realMill({ jobs: [ticks] })
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const path = file()
    writeFileSync(path, '')
    const { pid } = await (await mill.enqueue(ticks, path)).result({ timeout: '10s' })
    await vi.waitUntil(() => readFileSync(path).length > 3)
    await worker.stop()
    const { length } = readFileSync(path)
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect(readFileSync(path)).toHaveLength(length)
    if (type === 'process') expect(isGone(pid)).toBe(true)
  })

  test('without work for a while ends, but for the warm ones', async () => {
    const where = define('where', { type })
    const mill = await started([where], { sandbox: { size: 2, idle: '50ms', warm: 0 } })
    const once = async () => (await mill.enqueue(where, 0)).result({ timeout: '10s' })
    const first = await once()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(await once()).not.toEqual(first)
  })
})

describe('a sandbox', () => {
  test.for([
    ['a module that is not there', new URL('./nowhere.js', url), 'default', 'nowhere.js'],
    ['an export that is not there', url, 'missing', "exports no function 'missing'"],
    ['an export that is no function', url, 'notAFunction', "exports no function 'notAFunction'"],
  ] as const)('with %s fails for good', async ([, place, name, message]) => {
    const job = defineJob({ name: 'job', run: fromModule<Named, string>(place, name) })
    const mill = await started([job])
    const handle = await mill.enqueue(job, null)
    await expect(handle.result({ timeout: '10s' })).rejects.toThrow(message)
    expect(await handle.get()).toMatchObject({ attempt: 1, failure: { code: 'HANDLER_MISSING' } })
  })

  test('for suspects only: others run in the worker, and a suspect neither waits nor runs alone', async () => {
    const [where, here] = [define('where', { use: 'suspects' }, { maxCrashes: 2 }), signal()]
    const neighbour = defineJob({ name: 'neighbour', run: () => here.promise })
    const mill = testMill({ jobs: [where, neighbour] })
    const suspect = await mill.enqueue(where, 0)
    const sweeper = mill.worker({ queues: ['elsewhere'], handleSignals: false })
    await sweeper.start()
    expect(await vanish(mill, 'ghost')).toEqual([suspect.id])
    await mill.clock.advance(32_000)
    await sweeper.stop()
    const beside = await mill.enqueue(neighbour, null)
    const innocent = await mill.enqueue(where, 0)
    const worker = mill.worker({ handleSignals: false, sandbox: { size: 1 } })
    await worker.start()
    await vi.waitUntil(async () => (await suspect.state()) === 'completed', { timeout: 10_000 })
    expect(await beside.state()).toBe('running')
    const [apart, home] = [await suspect.get(), await innocent.get()]
    expect(apart?.result).toMatchObject({ isMainThread: true })
    expect(apart?.result).not.toMatchObject({ pid: process.pid })
    expect(home?.result).toMatchObject({ pid: process.pid })
    here.give()
    await worker.stop()
  })

  test('needs to know neither the codec nor the schema', async () => {
    const codec = {
      encode: (value: unknown, what: string, most: number) => `!${jsonCodec.encode(value, what, most)}`,
      decode: (text: string) => jsonCodec.decode(text.slice(1)),
    }
    class Point {
      readonly x = 1
    }
    const input = (parsed: unknown) => z.string().transform(() => parsed as number)
    const run = fromModule<Handlers, 'reports'>(url, 'reports')
    const parsed = defineJob({ name: 'parsed', input: input(2), run })
    const strange = defineJob({ name: 'strange', input: input(new Point()), run })
    const mill = realMill({ jobs: [parsed, strange], codec })
    await mill.worker({ handleSignals: false }).start()
    const handle = await mill.enqueue(parsed, 'two')
    await handle.result({ timeout: '10s' })
    expect(await handle.get()).toMatchObject({ input: 'two', progress: new Map([['step', 2]]) })
    await expect((await mill.enqueue(strange, 'x')).result({ timeout: '10s' })).rejects.toThrow(
      'the parsed input cannot be stored: at $ it is an instance of Point',
    )
  })

  test('changes its kind when the job at hand needs another', async () => {
    const [thread, other] = [
      define('where', { type: 'thread' }),
      define('leavesTicking', { type: 'process' }),
    ]
    const mill = await started([thread, other], { sandbox: { size: 1 } })
    const places = []
    for (let i = 0; i < 2; i++) {
      places.push(await (await mill.enqueue(thread, 0)).result({ timeout: '10s' }))
      places.push(await (await mill.enqueue(other, file())).result({ timeout: '10s' }))
    }
    expect(places.map(({ isMainThread }) => isMainThread)).toEqual([false, true, false, true])
  })

  test('is given back with its job at the end of the grace', async () => {
    const loops = define('loops', { type: 'process' }, { timeout: 0 })
    const mill = realMill({ jobs: [loops] })
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const handle = await mill.enqueue(loops, null)
    await vi.waitUntil(async () => (await handle.state()) === 'running')
    await worker.stop({ grace: '100ms' })
    expect(await handle.get()).toMatchObject({ state: 'pending', attempt: 0 })
  })

  test('that is a process does not outlive a worker that was killed, even in an endless loop', async () => {
    const parent = spawn(process.execPath, [fileURLToPath(built('sandbox-parent'))], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(line.toString())
    expect(isGone(pid)).toBe(false)
    parent.kill('SIGKILL')
    await vi.waitUntil(() => isGone(pid), { timeout: 10_000 })
  })

  test('is not used by the test kit, nor where a worker says so', async () => {
    const where = define('where', { type: 'process' })
    expect((await runJob(where, 0)).result).toMatchObject({ pid: process.pid })
    const mill = testMill({ jobs: [where] })
    const handle = await mill.enqueue(where, 0)
    await mill.drain()
    expect(await handle.result()).toMatchObject({ pid: process.pid })
    const real = await started([where], { sandbox: false })
    expect(await (await real.enqueue(where, 0)).result({ timeout: '10s' })).toMatchObject({
      pid: process.pid,
    })
  })
})

function define<
  Name extends Exclude<keyof Handlers, 'default' | 'known' | 'unknown' | 'failing' | 'notAFunction'>,
>(name: Name, sandbox: SandboxOptions, policy: object = {}) {
  const run = fromModule<Handlers, Name>(url, ...([name] as never))
  // A retry stays where it can be looked at.
  const backoff = { type: 'fixed', initialDelay: '1h', jitter: 'none' } as const
  return defineJob({ name, run, sandbox, maxAttempts: 1, backoff, ...policy })
}

async function started(jobs: readonly AnyJob[], options: WorkerOptions = {}): Promise<Millrace> {
  const mill = realMill({ jobs })
  await mill.worker({ handleSignals: false, ...options }).start()
  return mill
}

function circular(): unknown {
  const value: { self?: unknown } = {}
  value.self = value
  return value
}
