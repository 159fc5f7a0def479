import { cancel, isMillraceError, type JobDefinition, NonRetryableError } from 'millrace'
import { defineSaga, saga } from 'millrace/saga'
import { describe, expect, test } from 'vitest'
import { realMill, signal, testMill, vanish } from './mill.js'

const quick = { backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' } } as const
const names = ['flight', 'hotel', 'car'] as const
type Name = (typeof names)[number]

/** A trip whose steps do as they are told. */
function trip(
  options: { fail?: Partial<Record<string, unknown>>; maxAttempts?: number; undoTries?: number } = {},
) {
  const log: string[] = []
  const fail: Partial<Record<string, unknown>> = { ...options.fail }
  const act = (what: string, key: string) => {
    log.push(what)
    keys.add(key)
    if (fail[what] !== undefined) throw fail[what]
    return `${what} done`
  }
  const keys = new Set<string>()
  const definition: JobDefinition<{ who: string }, { who: string }, Record<Name, string>> = defineSaga<
    { who: string },
    Record<Name, string>
  >({
    name: 'trip',
    ...quick,
    maxAttempts: options.maxAttempts ?? 2,
    compensation: {
      maxAttempts: options.undoTries ?? 3,
      backoff: { type: 'fixed', initialDelay: '10s', jitter: 'none' },
    },
    steps: names.map((name) => ({
      name,
      run: ({ key }: { key: string }) => act(name, key),
      compensate: ({ key, result }: { key: string; result: string | undefined }) =>
        void act(`undo ${name}${result === undefined ? '?' : ''}`, key),
    })),
  })
  return { definition, log, fail, keys }
}

describe('a saga', () => {
  test('does its steps in order and gives their results by name', async () => {
    const { definition, log, keys } = trip()
    const mill = testMill({ jobs: [definition] })
    const job = await mill.enqueue(definition, { who: 'ann' }, { id: 't' })
    await mill.drain()
    expect(await job.result()).toEqual({ flight: 'flight done', hotel: 'hotel done', car: 'car done' })
    expect(log).toEqual(['flight', 'hotel', 'car'])
    expect([...keys]).toEqual(['t:flight', 't:hotel', 't:car'])
  })

  test.for([...names.entries()])('undoes in reverse what was done when step %i fails', async ([i, name]) => {
    const { definition, log } = trip({ fail: { [name]: new NonRetryableError('sold out') } })
    const mill = testMill({ jobs: [definition] })
    const failures: unknown[] = []
    mill.on('failed', ({ failure }) => failures.push(failure.code))
    const job = await mill.enqueue(definition, { who: 'ann' })
    await mill.drain()
    const done = names.slice(0, i)
    const undone = [`undo ${name}?`, ...done.toReversed().map((one) => `undo ${one}`)]
    expect(log).toEqual([...done, name, ...undone])
    expect(await job.get()).toMatchObject({ state: 'cancelled', failure: { code: 'SAGA_COMPENSATED' } })
    expect(failures).toEqual(['SAGA_COMPENSATED'])
    await expect(job.result()).rejects.toMatchObject({
      code: 'JOB_CANCELLED',
      message: expect.stringContaining(
        `step '${name}' of the saga failed and what was done was undone: sold out`,
      ),
      cause: { code: 'SAGA_COMPENSATED' },
    })
    expect(await mill.dead.groups()).toEqual([])
  })

  test('retries a step, and goes back when its attempts are over', async () => {
    const { definition, log, fail } = trip({ fail: { hotel: new Error('busy') } })
    const mill = testMill({ jobs: [definition] })
    const job = await mill.enqueue(definition, { who: 'ann' })
    await mill.drain()
    expect(await job.state()).toBe('retrying')
    expect(log).toEqual(['flight', 'hotel'])
    fail.hotel = undefined
    await mill.drain({ later: true })
    expect(await job.state()).toBe('completed')
    expect(log).toEqual(['flight', 'hotel', 'hotel', 'car'])

    log.length = 0
    fail.hotel = new Error('busy')
    const other = await mill.enqueue(definition, { who: 'bob' })
    await mill.drain({ later: true })
    expect(log).toEqual(['flight', 'hotel', 'hotel', 'undo hotel?', 'undo flight'])
    expect(await other.state()).toBe('cancelled')
  })

  test('a cancel that a step throws, and a result that cannot be kept, undo it too', async () => {
    const { definition, log } = trip({ fail: { hotel: cancel('not wanted') } })
    const undone: unknown[] = []
    const odd = defineSaga({
      name: 'odd',
      steps: [{ name: 'one', run: () => () => {}, compensate: ({ failure }) => void undone.push(failure) }],
    })
    const mill = testMill({ jobs: [definition, odd] })
    const job = await mill.enqueue(definition, { who: 'ann' })
    await mill.enqueue(odd, {})
    await mill.drain()
    expect(log).toEqual(['flight', 'hotel', 'undo hotel?', 'undo flight'])
    expect((await job.get())?.cancelReason).toMatch(/not wanted/)
    expect(undone).toEqual([{ step: 'one', message: expect.stringMatching(/cannot be stored/) }])
  })

  test('sleeps between the tries of a compensation, and never undoes twice what is undone', async () => {
    const { definition, log, fail } = trip({
      fail: { car: new NonRetryableError('none left'), 'undo hotel': new Error('busy') },
    })
    const mill = testMill({ jobs: [definition] })
    const job = await mill.enqueue(definition, { who: 'ann' })
    await mill.drain()
    expect(await job.get()).toMatchObject({ state: 'blocked', attempt: 0 })
    expect(log).toEqual(['flight', 'hotel', 'car', 'undo car?', 'undo hotel'])
    await mill.advance('10s')
    fail['undo hotel'] = undefined
    await mill.advance('10s')
    expect(log.slice(5)).toEqual(['undo hotel', 'undo hotel', 'undo flight'])
    expect(await job.state()).toBe('cancelled')
  })

  test('a compensation that fails for good leaves the job dead with an alert, and a retry goes on with it', async () => {
    const { definition, log, fail } = trip({
      fail: { hotel: new NonRetryableError('full'), 'undo flight': new Error('airline is down') },
      undoTries: 2,
    })
    const mill = testMill({ jobs: [definition] })
    const alerts: string[] = []
    mill.on('compensationFailed', ({ failure }) => alerts.push(failure.message))
    const job = await mill.enqueue(definition, { who: 'ann' })
    await mill.drain({ later: true })
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'COMPENSATION_FAILED' } })
    expect(alerts).toEqual([
      expect.stringContaining(
        "step 'flight' of the saga could not be undone, after 2 tries: airline is down",
      ),
    ])
    expect(log).toEqual(['flight', 'hotel', 'undo hotel?', 'undo flight', 'undo flight'])

    await mill.dead.retry(job.id)
    await mill.drain({ later: true })
    expect(await job.state()).toBe('dead')
    expect(log.slice(5)).toEqual(['undo flight', 'undo flight'])
    fail['undo flight'] = undefined
    await mill.dead.retry(job.id)
    await mill.drain({ later: true })
    expect(await job.state()).toBe('cancelled')
    expect(log.slice(7)).toEqual(['undo flight'])
    expect(alerts).toHaveLength(2)
  })

  test('a timeout and a lost worker on the last attempt still let it undo', async () => {
    const log: string[] = []
    const slow = defineSaga({
      name: 'slow',
      ...quick,
      maxAttempts: 1,
      timeout: '1s',
      steps: [
        { name: 'a', run: () => void log.push('a'), compensate: () => void log.push('undo a') },
        {
          name: 'b',
          run: ({ signal }) => {
            log.push('b')
            return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
          },
          compensate: ({ result, failure }) => void log.push(`undo b ${result} ${failure.message}`),
        },
      ],
    })
    const mill = testMill({ jobs: [slow] })
    const timedOut = await mill.enqueue(slow, {})
    const worker = mill.worker()
    await worker.start()
    await mill.clock.advance(5_000)
    await worker.stop()
    expect(await timedOut.state()).toBe('cancelled')
    expect(log).toEqual([
      'a',
      'b',
      'undo b undefined its 1 attempts are over; the last ended by a timeout or with its worker',
      'undo a',
    ])

    log.length = 0
    const lost = await mill.enqueue(slow, {})
    expect(await vanish(mill, 'killed')).toEqual([lost.id])
    const rescuer = mill.worker()
    await rescuer.start()
    await mill.clock.advance(60_000)
    await rescuer.stop()
    expect(await lost.state()).toBe('cancelled')
    expect(log).toEqual(['undo a'])
  })

  test('what comes after an irreversible step only goes forward', async () => {
    const log: string[] = []
    let broken = true
    const shipping = saga({ name: 'shipping', ...quick, maxAttempts: 1 })
      .step('pay', {
        run: () => ({ paid: 5 }),
        compensate: ({ result }) => void log.push(`refund ${result?.paid}`),
      })
      .step('ship', { run: () => 'parcel', irreversible: true })
      .step('tell', {
        run: ({ results }) => {
          log.push(`tell ${results.ship} ${results.pay.paid}`)
          if (broken) throw new NonRetryableError('no address')
          return true
        },
        irreversible: true,
      })
      .define()
    const mill = testMill({ jobs: [shipping] })
    const job = await mill.enqueue(shipping, {})
    await mill.drain({ later: true })
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { message: 'no address' } })
    broken = false
    await mill.dead.retry(job.id)
    await mill.drain()
    expect(await job.result()).toEqual({ pay: { paid: 5 }, ship: 'parcel', tell: true })
    expect(log).toEqual(['tell parcel 5', 'tell parcel 5'])
  })

  test('a failing irreversible step undoes what came before', async () => {
    const log: string[] = []
    const shipping = saga({ name: 'shipping', maxAttempts: 1 })
      .step('pay', { run: () => 1, compensate: () => void log.push('refund') })
      .step('ship', { run: () => Promise.reject(new Error('no truck')), irreversible: true })
      .define()
    const mill = testMill({ jobs: [shipping] })
    const job = await mill.enqueue(shipping, {})
    await mill.drain()
    expect(log).toEqual(['refund'])
    expect(await job.state()).toBe('cancelled')
  })

  test('a cancel undoes what was done, whatever the saga is at', async () => {
    const { definition, log, fail } = trip({
      fail: { hotel: new Error('busy'), 'undo flight': new Error('busy') },
    })
    const mill = testMill({ jobs: [definition] })
    const early = await mill.enqueue(definition, { who: 'ann' }, { delay: '1h' })
    expect(await early.cancel('no')).toBe('cancelled')
    expect(log).toEqual([])

    const retrying = await mill.enqueue(definition, { who: 'bob' })
    await mill.drain()
    expect(await retrying.state()).toBe('retrying')
    expect(await retrying.cancel('changed my mind')).toBe('asked')
    await mill.drain()
    expect(log).toEqual(['flight', 'hotel', 'undo hotel?', 'undo flight'])
    // Asked again while it sleeps between two tries of a compensation: it tries once more.
    expect(await retrying.state()).toBe('blocked')
    expect(await retrying.cancel('now')).toBe('asked')
    fail['undo flight'] = undefined
    await mill.drain({ later: true })
    expect(log.slice(4)).toEqual(['undo flight'])
    expect(await retrying.get()).toMatchObject({ state: 'cancelled', failure: { code: 'SAGA_COMPENSATED' } })
    expect((await retrying.get())?.cancelReason).toMatch(
      /step 'hotel' .* the saga was cancelled: changed my mind/,
    )
    expect(await retrying.cancel('again')).toBe('finished')
  })

  test('a cancel of a running saga stops its step and undoes it', async () => {
    const log: string[] = []
    const begun = signal()
    const slow = defineSaga({
      name: 'slow',
      steps: [
        { name: 'a', run: () => void log.push('a'), compensate: () => void log.push('undo a') },
        {
          name: 'b',
          run: ({ signal: stop }) => {
            log.push('b')
            begun.give()
            return new Promise((_, reject) => stop.addEventListener('abort', () => reject(stop.reason)))
          },
          compensate: ({ result }) => void log.push(`undo b ${result}`),
        },
        { name: 'c', run: () => void log.push('c'), compensate: () => void log.push('undo c') },
      ],
    })
    const mill = realMill({ jobs: [slow] })
    await mill.worker().start()
    const job = await mill.enqueue(slow, {})
    await begun.promise
    expect(await job.cancel('enough')).toBe('asked')
    await expect(job.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
    expect(log).toEqual(['a', 'b', 'undo b undefined', 'undo a'])
    expect(await job.get()).toMatchObject({ state: 'cancelled', attempt: 1 })
  })

  test('is refused when it cannot be right', () => {
    const ok = { name: 'a', run: () => 1, compensate: () => {} }
    const last = { name: 'z', run: () => 1, irreversible: true } as const
    const wrong: [unknown, RegExp][] = [
      [{ steps: [] }, /steps is \[\]; expected at least one step/],
      [{ steps: [ok, ok] }, /steps\[1\].name is "a"; expected each name once/],
      [
        { steps: [{ name: 'a', run: () => 1 }] },
        /steps\[0\].compensate is undefined; .* or irreversible: true/,
      ],
      [
        { steps: [last, ok] },
        /steps\[1\].name is "a"; expected irreversible steps last, but 'z' comes before it/,
      ],
      [
        { steps: [{ ...last, compensate: () => {} }] },
        /steps\[0\].compensate .* none: the step is irreversible/,
      ],
      [{ steps: [{ ...ok, name: 'undo:x' }] }, /steps\[0\].name/],
      [{ steps: [{ ...ok, retries: 1 }] }, /has no option 'retries'/],
      [{ steps: [ok], maxCrashes: 1 }, /has no option 'maxCrashes'/],
      [{ steps: [ok], compensation: { maxAttempts: 0 } }, /compensation.maxAttempts/],
      [{ steps: [ok], dedupe: { key: () => 'k', mode: 'replace' } }, /dedupe.mode/],
    ]
    for (const [options, message] of wrong) {
      let error: unknown
      try {
        defineSaga({ name: 's', ...(options as object) } as never)
      } catch (thrown) {
        error = thrown
      }
      expect(isMillraceError(error) && error.message, String(message)).toMatch(message)
    }
  })
})

test('a saga cannot be given fewer lives than it needs to undo what it did', async () => {
  const order = defineSaga({ name: 'order', steps: [{ name: 'pay', run: () => {}, compensate: () => {} }] })
  const mill = testMill({ jobs: [order] })
  await expect(mill.enqueue(order, null, { maxAttempts: 1 })).rejects.toThrow(/'order' is a saga/)
  await expect(mill.enqueue(order, null, { maxCrashes: 1 })).rejects.toThrow(/'order' is a saga/)
  await expect(
    mill.chain([{ job: order, input: null, options: { maxAttempts: 2 } }] as never),
  ).rejects.toThrow(/'order' is a saga/)
  await expect(mill.enqueue(order, null, { dedupe: { key: 'k', mode: 'replace' } })).rejects.toThrow(
    /'order' is a saga/,
  )
})
