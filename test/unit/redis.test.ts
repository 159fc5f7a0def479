/** The parts of the Redis engine that need no server. */
import { isMillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { checkServer } from '../../src/stores/redis/check-server.js'
import {
  gaveUp,
  isLost,
  isTransient,
  movedTo,
  NoAnswer,
  NotConfirmed,
  replyCode,
  storeError,
} from '../../src/stores/redis/errors.js'
import type { Line } from '../../src/stores/redis/line.js'
import { compileOptions, type RedisOptions } from '../../src/stores/redis/options.js'
import { makeScript } from '../../src/stores/redis/script.js'

describe('options', () => {
  const url = 'redis://someone:hunter2@host'

  test.each<[object, string]>([
    [{}, 'url'],
    [{ url, client: {} }, 'url'],
    [{ url: 'http://u:hunter2@host' }, 'url'],
    [{ url: 'redis://u:hunter2@host:port' }, 'url'],
    [{ url: 'redis://u:hunter2@host:70000' }, 'url'],
    [{ url: 'redis://u:hunter2@host/db' }, 'url'],
    [{ url: 'redis://u:hunter2@host/0/1' }, 'url'],
    [{ url: 'redis://u:hunter2@host?db=1' }, 'url'],
    [{ url: 'redis://u:hunter2%@host' }, 'url'],
    [{ url: 'redis://u:hunter2@a,b' }, 'url'],
    [{ url: 'redis+cluster://u:hunter2@a,b/1' }, 'url'],
    [{ url: 'redis+sentinel://u:hunter2@a,b' }, 'url'],
    [{ url: 7 }, 'url'],
    [{ client: {} }, 'client'],
    [{ client: null }, 'client'],
    [{ url, prefix: '' }, 'prefix'],
    [{ url, prefix: 'a:b' }, 'prefix'],
    [{ url, prefix: '{a}' }, 'prefix'],
    [{ url, prefix: 'a b' }, 'prefix'],
    [{ url, prefix: 'x'.repeat(49) }, 'prefix'],
    [{ url, patience: -1 }, 'patience'],
    [{ url, commandTimeout: 0 }, 'commandTimeout'],
    [{ url, listen: 'yes' }, 'listen'],
    [{ url, warn: 1 }, 'warn'],
    [{ url, durability: 'all' }, 'durability'],
    [{ url, durability: {} }, 'durability'],
    [{ url, durability: { wait: 1, waitaof: { local: 1, replicas: 0 } } }, 'durability'],
    [{ url, durability: { wait: 0 } }, 'durability.wait'],
    [{ url, durability: { wait: 1, timeout: 0 } }, 'durability.timeout'],
    [{ url, durability: { wait: 1, timeout: '9s' } }, 'durability.timeout'],
    [{ url, durability: { wait: 1, timout: 5 } }, 'durability.timout'],
    [{ url, durability: { waitaof: { local: 2, replicas: 0 } } }, 'durability.waitaof.local'],
    [{ url, durability: { waitaof: { local: 0, replicas: 0 } } }, 'durability.waitaof.replicas'],
    [{ url, durability: { waitaof: 1 } }, 'durability.waitaof'],
    [{ url, prefxi: 'x' }, 'prefxi'],
  ])('%o is refused', (options, field) => {
    const error = thrownBy(() => compileOptions(options as RedisOptions))
    expect(error).toMatchObject({ code: expect.stringMatching(/^INVALID/), field })
    expect(`${(error as Error).message} ${JSON.stringify(error)}`).not.toContain('hunter2')
  })

  test('undefined ones mean their defaults', () => {
    expect(compileOptions({ url, prefix: undefined, patience: undefined } as never)).toEqual(
      compileOptions({ url }),
    )
    expect(compileOptions({ url })).toMatchObject({
      prefix: 'millrace',
      patience: 30_000,
      timeouts: { answer: 10_000 },
      durability: undefined,
      listen: true,
    })
  })

  test('durability', () => {
    const compiled = (durability: RedisOptions['durability'], commandTimeout = 10_000) =>
      compileOptions({ url, commandTimeout, ...(durability && { durability }) }).durability
    expect(compiled({ wait: 2 })).toEqual({ command: 'WAIT', local: 0, replicas: 2, timeout: 1_000 })
    expect(compiled({ wait: 2 }, 100)).toMatchObject({ timeout: 50 })
    expect(compiled({ waitaof: { local: 1, replicas: 0 }, timeout: '2s' })).toEqual({
      command: 'WAITAOF',
      local: 1,
      replicas: 0,
      timeout: 2_000,
    })
  })
})

describe('a URL', () => {
  const target = (url: string) => compileOptions({ url }).target
  const nobody = { username: undefined, password: undefined, db: 0, tls: false, primary: undefined }

  test.each([
    ['redis://localhost', { ...nobody, kind: 'server', addresses: [{ host: 'localhost', port: 6379 }] }],
    [
      'rediss://me:p%40ss@[::1]:7000/2',
      {
        kind: 'server',
        addresses: [{ host: '::1', port: 7000 }],
        primary: undefined,
        username: 'me',
        password: 'p@ss',
        db: 2,
        tls: true,
      },
    ],
    [
      'redis://:secret@h',
      { ...nobody, kind: 'server', addresses: [{ host: 'h', port: 6379 }], password: 'secret' },
    ],
    [
      'redis+cluster://a:1,b,c:3/',
      {
        ...nobody,
        kind: 'cluster',
        addresses: [
          { host: 'a', port: 1 },
          { host: 'b', port: 6379 },
          { host: 'c', port: 3 },
        ],
      },
    ],
    [
      'rediss+sentinel://a,b:2/mymaster/5',
      {
        ...nobody,
        kind: 'sentinel',
        addresses: [
          { host: 'a', port: 26379 },
          { host: 'b', port: 2 },
        ],
        primary: 'mymaster',
        db: 5,
        tls: true,
      },
    ],
  ])('%s', (url, expected) => {
    expect(target(url)).toEqual(expected)
  })
})

describe('an error', () => {
  test.each([
    ['LOADING Redis is loading the dataset in memory', 'passes'],
    ['BUSY Redis is busy running a script.', 'passes'],
    ['MISCONF Redis is configured to save RDB snapshots', 'passes'],
    ['NOREPLICAS Not enough good replicas to write.', 'passes'],
    ['TRYAGAIN Multiple keys request during rehashing of slot', 'passes'],
    ['ASK 12 10.0.0.1:7000', 'passes'],
    ["READONLY You can't write against a read only replica.", 'lost'],
    ['MASTERDOWN Link with MASTER is down', 'lost'],
    ['UNBLOCKED force unblock from blocking operation', 'lost'],
    ['CLUSTERDOWN Hash slot not served', 'lost'],
    ['MOVED 12 10.0.0.1:7000', 'lost'],
    ['ERR max number of clients reached', 'lost'],
    ['ERR WAIT cannot be used with replica instances.', 'lost'],
    [
      `ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -READONLY You can't write`,
      'lost',
    ],
    [
      `ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed`,
      'STORE_FULL',
    ],
    ["OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:1.", 'STORE_FULL'],
    ['NOAUTH Authentication required.', 'STORE_REFUSED'],
    ['WRONGPASS invalid username-password pair', 'STORE_REFUSED'],
    ['NOPERM this user has no permissions', 'STORE_REFUSED'],
    ['DENIED Redis is running in protected mode', 'STORE_REFUSED'],
    [`ERR The user executing the script can't run this command or subcommand`, 'STORE_REFUSED'],
    ['WRONGTYPE Operation against a key', 'STORE_FAILED'],
    ['ERR unknown command', 'STORE_FAILED'],
  ])('%s', (message, expected) => {
    const error = reply(message)
    if (expected === 'lost' || expected === 'passes') {
      expect([isTransient(error), isLost(error)]).toEqual([true, expected === 'lost'])
      expect(gaveUp(error, 5_000)).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    } else {
      expect(isTransient(error)).toBe(false)
      const told = storeError(error)
      expect(told).toMatchObject({ code: expected, cause: error })
      expect(replyCode(told)).toBe(replyCode(error))
    }
  })

  test('of the network passes, others of the driver do not', () => {
    expect(isTransient(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))).toBe(true)
    expect(isTransient(new Error('Connection is closed.'))).toBe(true)
    expect(isTransient(new NoAnswer('x'))).toBe(true)
    expect(isTransient(Object.assign(new Error('x'), { code: 'CERT_HAS_EXPIRED' }))).toBe(false)
    expect(isTransient(new TypeError('x'))).toBe(false)
  })

  test('says that a write is there which too few have confirmed', () => {
    const error = gaveUp(new NotConfirmed('0 of 1 replicas have it'), 30_000)
    expect(isMillraceError(error, 'STORE_UNAVAILABLE')).toBe(true)
    expect((error as Error).message).toMatch(/the write is there.*tried for 30 s.*0 of 1/)
  })

  test('says where a slot has gone', () => {
    expect(movedTo(reply('MOVED 12 10.0.0.1:7000'), 'h')).toEqual({ host: '10.0.0.1', port: 7000 })
    expect(movedTo(reply('MOVED 12 2001:db8::1:7000'), 'h')).toEqual({ host: '2001:db8::1', port: 7000 })
    expect(movedTo(reply('MOVED 12 :7000'), 'h')).toEqual({ host: 'h', port: 7000 })
    expect(movedTo(reply('MOVED 12 ?:7000'), 'h')).toEqual({ host: 'h', port: 7000 })
    expect(movedTo(reply('ASK 12 10.0.0.1:7000'), 'h')).toBeUndefined()
    expect(movedTo(new Error('MOVED 12 10.0.0.1:7000'), 'h')).toBeUndefined()
  })
})

describe('a server', () => {
  const waitaof = { command: 'WAITAOF', local: 1, replicas: 0, timeout: 1 } as const

  test('that is too old is refused', async () => {
    const error = await checkServer(server('redis_version:6.0.16'), undefined, false).catch(
      (thrown) => thrown,
    )
    expect(error).toMatchObject({
      code: 'STORE_REFUSED',
      field: 'redis_version',
      value: '6.0.16',
      limit: '6.2',
    })
    for (const version of ['6.2.0', '7.0.15', '10.1.0'])
      await expect(checkServer(server(`redis_version:${version}`), undefined, false)).resolves.toBeDefined()
  })

  test('needs 7.2 and its file for waitaof', async () => {
    const refused = { code: 'STORE_REFUSED' }
    await expect(
      checkServer(server('redis_version:7.0.15\r\naof_enabled:1'), waitaof, false),
    ).rejects.toMatchObject(refused)
    await expect(
      checkServer(server('redis_version:7.2.4\r\naof_enabled:0'), waitaof, false),
    ).rejects.toMatchObject(refused)
    await expect(
      checkServer(server('redis_version:7.2.4\r\naof_enabled:1'), waitaof, false),
    ).resolves.toBeDefined()
  })

  test('that forbids CONFIG is judged by INFO', async () => {
    const lossy = server('redis_version:7.0.0\r\nmaxmemory_policy:allkeys-lru')
    await expect(checkServer(lossy, undefined, false)).rejects.toMatchObject({ field: 'maxmemory-policy' })
    const fine = server('redis_version:7.0.0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1')
    expect(await checkServer(fine, undefined, false)).toEqual([
      expect.stringMatching(/^could not verify appendfsync/),
    ])
  })
})

test('a script is known by the hash of its text', () => {
  expect(makeScript('one', 'return 1')).toEqual({
    name: 'one',
    text: 'return 1',
    sha: 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db',
  })
})

/** One that answers INFO and forbids all else. */
function server(info: string): Line {
  const ask = async (commands: readonly (readonly unknown[])[]) =>
    commands.map(([name]) => (name === 'INFO' ? info : reply('NOPERM this user has no permissions')))
  return { ask } as unknown as Line
}

function reply(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}

function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  return undefined
}
