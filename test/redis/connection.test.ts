import { Redis } from 'ioredis'
import { isMillraceError } from 'millrace'
import { describe, expect, onTestFinished, test } from 'vitest'
import { replyCode } from '../../src/stores/redis/errors.js'
import { makeScript } from '../../src/stores/redis/script.js'
import { startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { admin, codeOf, errorOf, freshPrefix, open, scripts, serverUrl } from './redis.js'

describe('a script', () => {
  test('gets its two keys and its arguments, and answers in text', async () => {
    const prefix = freshPrefix()
    const connection = await open({ prefix })
    expect(await connection.run(scripts.echo, ['π 🚀'])).toEqual([
      `{${prefix}:0}`,
      `{${prefix}:0}:never`,
      'π 🚀',
      5,
    ])
    expect(await connection.run(scripts.echo, [])).toMatchObject({ 2: null })
    const third = await open({ prefix }, 3)
    expect(await third.run(scripts.echo, [7])).toMatchObject({ 0: `{${prefix}:3}`, 2: '7' })
  })

  test('that the server has forgotten is sent again', async () => {
    const connection = await open()
    await connection.run(scripts.add, [])
    await admin((redis) => redis.script('FLUSH'))
    const answers = await Promise.all(Array.from({ length: 5 }, () => connection.run(scripts.add, [])))
    expect(answers.sort()).toEqual([2, 3, 4, 5, 6])
  })

  test('that fails is told in a sentence, and its connection goes on', async () => {
    const connection = await open()
    const wrong = makeScript('wrong', "return redis.call('NOSUCH')")
    const error = await errorOf(connection.run(wrong, []))
    expect(isMillraceError(error, 'STORE_FAILED')).toBe(true)
    expect(replyCode(error)).toBe('ERR')
    expect(await connection.run(scripts.add, [])).toBe(1)
  })

  test('that refuses is told by its own code, and is not tried again', async () => {
    const connection = await open()
    const refuse = makeScript(
      'refuse',
      "redis.call('INCR', KEYS[1] .. ':calls') return redis.error_reply('MRSTALE the token is old')",
    )
    const error = await errorOf(connection.run(refuse, []))
    expect(error).toMatchObject({
      name: 'ScriptRefusal',
      code: 'MRSTALE',
      message: 'MRSTALE the token is old',
    })
    expect(await connection.run(scripts.add, [])).toBe(2)
  })

  test('waits while another one runs for too long', async () => {
    const server = await startOwnRedis({ settings: { 'busy-reply-threshold': 20 } })
    onTestFinished(() => server.stop())
    const [one, other] = [await open({ url: server.url }), await open({ url: server.url })]
    const busy = makeScript(
      'busy',
      `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
      local start = now() while now() - start < 300 do end return 'done'`,
    )
    const running = one.run(busy, [])
    expect(await other.run(scripts.add, [])).toBe(1)
    expect(await running).toBe('done')
  })

  test('that needs memory is refused when there is none; others are not', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    const connection = await open({ url: server.url })
    await connection.run(scripts.once, ['before'])
    await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1kb'))
    const error = await errorOf(connection.run(scripts.once, ['after']))
    expect(error).toMatchObject({ code: 'STORE_FULL' })
    expect(error.message).toContain('nothing was written')
    expect(await connection.run(scripts.names, [])).toEqual(['before'])
    await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '0'))
    expect(await connection.run(scripts.once, ['after'])).toBe(1)
  })
})

describe('a server with passwords', () => {
  const settings = { requirepass: 'hunter2' }

  test('is used with the right one, and refuses at once without', async () => {
    const server = await startOwnRedis({ settings })
    onTestFinished(() => server.stop())
    expect(await codeOf(open({ url: server.url }))).toBe('ok')
    const without = await errorOf(open({ url: `redis://${server.host}:${server.port}` }))
    expect(without).toMatchObject({ code: 'STORE_REFUSED' })
    const wrong = await errorOf(open({ url: `redis://:hunter3@${server.host}:${server.port}` }))
    expect(wrong).toMatchObject({ code: 'STORE_REFUSED' })
    expect(`${wrong.message} ${JSON.stringify(wrong)}`).not.toContain('hunter3')
  })

  test('says what a user may not do', async () => {
    const server = await startOwnRedis({ settings })
    onTestFinished(() => server.stop())
    const url = `redis://guest:guest@${server.host}:${server.port}`
    const acl = ['SETUSER', 'guest', 'on', '>guest', '~*', '+@all', '-hset', '-config', '-info'] as const
    await ask(server.port, (redis) => redis.call('ACL', ...acl), settings.requirepass)
    const connection = await open({ url })
    expect(connection.warnings.filter((text) => text.startsWith('could not verify'))).toHaveLength(2)
    const hset = makeScript('hset', "return redis.call('HSET', KEYS[1], 'a', 1)")
    expect(await codeOf(connection.run(hset, []))).toBe('STORE_REFUSED')
  })
})

describe('a client of the caller', () => {
  test('gives its settings, and is left alone', async () => {
    const client = new Redis(`${serverUrl()}/3`, { lazyConnect: true, keyPrefix: 'theirs:' })
    onTestFinished(() => client.disconnect())
    const prefix = freshPrefix()
    const connection = await open({ client, prefix })
    await connection.run(scripts.once, ['x'])
    expect(client.status).toBe('wait')
    const keys = await admin(async (redis) => {
      await redis.select(3)
      return redis.keys(`*${prefix}*`)
    })
    expect(keys.sort()).toEqual([`{${prefix}:0}`, `{${prefix}:0}:names`])
    connection.close()
    expect(client.status).toBe('wait')
  })
})

test('a database that does not exist is refused, instead of another one being used', async () => {
  const error = await errorOf(open({ url: `${serverUrl()}/99` }))
  expect(error).toMatchObject({ code: 'STORE_FAILED' })
  expect(error.message).toContain('out of range')
})

test('a store of a newer Millrace is refused', async () => {
  const prefix = freshPrefix()
  await admin((redis) => redis.hset(`{${prefix}:0}`, 'format', '99'))
  expect(await errorOf(open({ prefix }))).toMatchObject({
    code: 'STORE_REFUSED',
    field: 'format',
    value: '99',
  })
})

test('a store that was made with another number of shards is refused', async () => {
  const prefix = freshPrefix()
  await open({ prefix, shards: 3 })
  expect(await errorOf(open({ prefix, shards: 2 }))).toMatchObject({
    code: 'STORE_REFUSED',
    field: 'shards',
    value: 2,
    limit: 3,
  })
})

test('the key that scripts name is made when it is missing', async () => {
  const prefix = freshPrefix()
  await open({ prefix })
  expect(await admin((redis) => redis.hgetall(`{${prefix}:0}`))).toEqual({ format: '4', shards: '1' })
})

test('a closed connection refuses at once, and so does what it was trying', async () => {
  const server = await startOwnRedis()
  onTestFinished(() => server.stop())
  const connection = await open({ url: server.url })
  await ask(server.port, (redis) => redis.call('CLIENT', 'PAUSE', 60_000))
  const inFlight = codeOf(connection.run(scripts.add, []))
  connection.close()
  expect(await inFlight).toBe('CLOSED')
  expect(await codeOf(connection.run(scripts.add, []))).toBe('CLOSED')
  await server.kill()
  const away = open({ url: server.url, patience: 100 })
  expect(await codeOf(away)).toBe('STORE_UNAVAILABLE')
})
