import { defineJob } from 'millrace'
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
