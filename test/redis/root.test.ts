/** The key that every script names goes missing: nothing goes on as if all were well. */
import { defineJob, Millrace } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type RedisServer, startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { errorOf, freshPrefix } from './redis.js'

const mail = defineJob({ name: 'mail', run: () => {} })

let server: RedisServer

beforeAll(async () => {
  server = await startOwnRedis()
})

afterAll(() => server.stop())

test('with all the others, as by FLUSHALL: the store begins anew, with connections that were there before', async () => {
  const { mill, root } = await open()
  await mill.enqueue(mail, {})
  await ask(server.port, (redis) => redis.flushall())
  await mill.enqueue(mail, {})
  expect((await mill.stats()).states.pending).toBe(1)
  expect(await ask(server.port, (redis) => redis.hget(root, 'format'))).toBe('4')
})

test('alone, as where a slot is only half there: everything waits until it is back', async () => {
  const { mill, root, prefix } = await open()
  await mill.enqueue(mail, {})
  const { mill: hasty } = await open({ prefix, patience: 100 })
  await ask(server.port, (redis) => redis.rename(root, `${root}:away`))
  const error = await errorOf(hasty.enqueue(mail, {}))
  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', message: expect.stringContaining('NOROOT') })
  const waiting = mill.enqueue(mail, {})
  await ask(server.port, (redis) => redis.rename(`${root}:away`, root))
  await waiting
  expect((await mill.stats()).states.pending).toBe(2)
})

async function open({ prefix = freshPrefix(), patience = 10_000 } = {}) {
  const mill = new Millrace({ store: new RedisStore({ url: server.url, prefix, patience, warn: false }) })
  onTestFinished(() => mill.close())
  await mill.open()
  return { mill, prefix, root: `{${prefix}:0}` }
}
