import { defineJob, type EnqueueOptions } from 'millrace'
import { describe, expect, test } from 'vitest'
import { signal, testMill } from './mill.js'

interface Doc {
  id: string
  text: string
}

describe('dedupe', () => {
  test('until-done by the definition, and the handle is of the job that stands', async () => {
    const sync = defineJob({
      name: 'sync',
      dedupe: { key: (doc: Doc) => doc.id },
      run: (doc: Doc) => doc.text,
    })
    const mill = testMill({ jobs: [sync] })
    const first = await mill.enqueue(sync, { id: 'a', text: 'one' })
    const second = await mill.enqueue(sync, { id: 'a', text: 'two' })
    const other = await mill.enqueue(sync, { id: 'b', text: 'three' })
    expect([first.status, second.status, other.status]).toEqual(['inserted', 'duplicate', 'inserted'])
    expect(second.id).toBe(first.id)
    await mill.drain()
    expect(await second.result()).toBe('one')
    expect((await mill.enqueue(sync, { id: 'a', text: 'four' })).status).toBe('inserted')
    expect((await mill.enqueue(sync, { id: 'a', text: 'five' }, { dedupe: false })).status).toBe('inserted')
  })

  test("a dead letter that is replayed with another input has that input's key", async () => {
    const seen: string[] = []
    const sync = defineJob({
      name: 'sync',
      maxAttempts: 1,
      dedupe: { key: (doc: Doc) => doc.id, mode: 'replace' },
      run: (doc: Doc) => {
        if (doc.text === 'bad') throw new Error('bad')
        seen.push(doc.text)
      },
    })
    const mill = testMill({ jobs: [sync] })
    const dead = await mill.enqueue(sync, { id: 'a', text: 'bad' })
    await mill.drain()
    await mill.dead.retry(dead.id, { input: { id: 'b', text: 'good' } })
    expect((await mill.enqueue(sync, { id: 'a', text: 'new' })).status).toBe('inserted')
    await mill.drain()
    expect(seen).toEqual(['good', 'new'])
  })

  test('debounce runs the last input once, after the last call', async () => {
    const seen: string[] = []
    const index = defineJob({
      name: 'index',
      dedupe: { key: (doc: Doc) => doc.id, mode: 'debounce', window: '2s', most: '5s' },
      run: (doc: Doc) => void seen.push(doc.text),
    })
    const mill = testMill({ jobs: [index] })
    for (const text of ['a', 'ab', 'abc']) {
      await mill.enqueue(index, { id: 'doc', text })
      await mill.advance('1s')
    }
    expect(seen).toEqual([])
    await mill.advance('1s')
    expect(seen).toEqual(['abc'])
  })

  test('throttle and replace at enqueue', async () => {
    const work = defineJob({ name: 'work', run: (text: string) => text })
    const mill = testMill({ jobs: [work] })
    const throttle = { key: 1, mode: 'throttle', window: '1m' } as const
    expect((await mill.enqueue(work, 'a', { dedupe: throttle })).status).toBe('inserted')
    await mill.drain()
    expect((await mill.enqueue(work, 'b', { dedupe: throttle })).status).toBe('duplicate')
    await mill.advance('1m')
    expect((await mill.enqueue(work, 'c', { dedupe: throttle })).status).toBe('inserted')
    const replace = { key: 2, mode: 'replace' } as const
    const first = await mill.enqueue(work, 'd', { dedupe: replace })
    const last = await mill.enqueue(work, 'e', { dedupe: replace })
    expect([last.status, last.id]).toEqual(['replaced', first.id])
    await mill.drain()
    expect(await first.result()).toBe('e')
  })

  test('keep-last runs one at a time, and the last that came meanwhile after it', async () => {
    const seen: string[] = []
    const started = signal()
    const go = signal()
    const rebuild = defineJob({
      name: 'rebuild',
      dedupe: { key: () => 'site', mode: 'keep-last' },
      run: async (text: string) => {
        seen.push(text)
        if (text !== 'a') return
        started.give()
        await go.promise
      },
    })
    const mill = testMill({ jobs: [rebuild] })
    await mill.enqueue(rebuild, 'a')
    const drained = mill.drain()
    await started.promise
    const b = await mill.enqueue(rebuild, 'b')
    const c = await mill.enqueue(rebuild, 'c')
    const d = await mill.enqueue(rebuild, 'd')
    expect([b.status, c.status, d.status]).toEqual(['inserted', 'replaced', 'replaced'])
    expect(d.id).toBe(b.id)
    go.give()
    await drained
    expect(seen).toEqual(['a', 'd'])
  })

  test('keep-last runs one at a time of a key that is given at enqueue', async () => {
    const seen: string[] = []
    const started = signal()
    const go = signal()
    const rebuild = defineJob({
      name: 'rebuild',
      dedupe: { key: (text: string) => text, mode: 'keep-last' },
      run: async (text: string) => {
        seen.push(text)
        if (text !== 'a') return
        started.give()
        await go.promise
      },
    })
    const free = defineJob({ name: 'free', run: () => {} })
    const mill = testMill({ jobs: [rebuild, free] })
    const site = { dedupe: { key: 'site', mode: 'keep-last' } } as const
    await mill.enqueue(rebuild, 'a', site)
    const drained = mill.drain()
    await started.promise
    const b = await mill.enqueue(rebuild, 'b', site)
    const c = await mill.enqueue(rebuild, 'c', { dedupe: { key: 'site', mode: 'replace' } })
    expect([c.status, c.id, (await c.get())?.key]).toEqual(['replaced', b.id, 'site'])
    await (await mill.enqueue(free, null)).result()
    expect(seen).toEqual(['a'])
    go.give()
    await drained
    expect(seen).toEqual(['a', 'c'])
  })

  test('keep-last has no other key beside it, in a handler neither', async () => {
    const rebuild = defineJob({
      name: 'rebuild',
      dedupe: { key: () => 'site', mode: 'keep-last' },
      run: () => {},
    })
    const plain = defineJob({ name: 'plain', run: () => {} })
    const adds = defineJob({
      name: 'adds',
      run: async (options: EnqueueOptions, { enqueue }) =>
        enqueue('mode' in (options.dedupe || {}) ? plain : rebuild, null, options),
      maxAttempts: 1,
    })
    const mill = testMill({ jobs: [rebuild, plain, adds] })
    const beside = { code: 'INVALID_OPTION', field: 'key', value: 'k' }
    const message = /"k"; expected none, because job 'rebuild' keeps the last .* give `dedupe.key` instead/
    await expect(mill.enqueue(rebuild, null, { key: 'k' })).rejects.toMatchObject(beside)
    await expect(mill.enqueue(rebuild, null, { key: 'k' })).rejects.toThrow(message)
    await expect(mill.enqueueMany(rebuild, [null], { key: 'k' })).rejects.toMatchObject(beside)
    const withKey = await mill.enqueue(adds, { key: 'k' })
    const undeclared = await mill.enqueue(adds, { dedupe: { key: 'k', mode: 'keep-last' } })
    await mill.drain()
    await expect(withKey.result()).rejects.toThrow(message)
    await expect(undeclared.result()).rejects.toThrow("on the definition of job 'plain'")
    expect((await mill.stats()).totals.enqueued).toBe(2)
  })

  test('wrong options are refused with a word', async () => {
    const run = () => {}
    const key = () => 'k'
    expect(() => defineJob({ name: 'x', dedupe: { key, mode: 'throttle' }, run })).toThrow('dedupe.window')
    expect(() => defineJob({ name: 'x', dedupe: { key, window: '1s' }, run })).toThrow('dedupe.window')
    expect(() => defineJob({ name: 'x', dedupe: { key, mode: 'latest' as never }, run })).toThrow(
      'dedupe.mode',
    )
    expect(() => defineJob({ name: 'x', dedupe: { key: 'k' as never }, run })).toThrow('dedupe.key')
    expect(() =>
      defineJob({ name: 'x', dedupe: { key, mode: 'debounce', window: '2s', most: '1s' }, run }),
    ).toThrow('dedupe.most')
    expect(() => defineJob({ name: 'x', key, dedupe: { key, mode: 'keep-last' }, run })).toThrow('keep-last')
    const plain = defineJob({ name: 'plain', run })
    const mill = testMill({ jobs: [plain] })
    const keepLast = { key: 'k', mode: 'keep-last' } as const
    await expect(mill.enqueue(plain, null, { dedupe: keepLast })).rejects.toThrow('on the definition')
    await expect(
      mill.enqueue(plain, null, { delay: '1s', dedupe: { key: 'k', mode: 'debounce', window: '1s' } }),
    ).rejects.toThrow('debounce decides')
  })
})
