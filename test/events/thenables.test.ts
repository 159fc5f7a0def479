/** Handlers may return what becomes a promise only when it is waited for, as the queries of many libraries do. */
import { defineEvent, defineProjection } from 'millrace/events'
import { expect, test } from 'vitest'
import { engine } from './logs.js'
import { all, bank, Closed, storeOn } from './stores.js'
import { freshName } from './tables.js'

/** Runs when it is waited for. */
function query(ran: string[], name: string): PromiseLike<void> {
  return {
    // biome-ignore lint/suspicious/noThenProperty: that is what such a query is
    then: (resolve, reject) => {
      ran.push(name)
      return Promise.resolve().then(resolve, reject)
    },
  }
}

test('of a projection', async () => {
  const { log } = await bank()
  const ran: string[] = []
  const options = { name: freshName('lazy'), events: [Closed], on: { closed: () => query(ran, 'closed') } }
  const store = await storeOn(log, { projections: [defineProjection(options)] })
  await store.append('account-1', [Closed()])
  await store.catchUp()
  expect(ran).toEqual(['closed'])
})

test('of an inline projection, but not where nothing can be waited for', async () => {
  const { log, begin } = await bank()
  const ran: string[] = []
  const projection = defineProjection({
    name: freshName('lazy'),
    inline: true,
    events: [Closed],
    on: { closed: ({ stream }) => query(ran, stream) },
  })
  const store = await storeOn(log, { projections: [projection] })
  await store.append('account-1', [Closed()])
  expect(ran).toEqual(['account-1'])
  const caller = await begin()
  const append = () => store.append('account-2', [Closed()], { tx: caller.tx })
  if (engine === 'postgres') await append()
  else expect(append).toThrow('a synchronous handler')
  expect(ran).toEqual(engine === 'postgres' ? ['account-1', 'account-2'] : ['account-1'])
  await caller.rollback()
})

test('but no upgrade', async () => {
  const { store, another } = await bank({ events: [defineEvent({ type: 'noted' })] })
  await store.append('note-1', [{ type: 'noted', data: undefined } as never])
  const Lazy = defineEvent({ type: 'noted', version: 1, upgrade: () => query([], 'upgrade') as unknown })
  await expect(all((await another({ events: [Lazy] })).read('note-1'))).rejects.toThrow(
    'it returned a promise',
  )
})
