/** What an outbox decides, apart from any database. */
import type { Row } from 'millrace/outbox'
import { describe, expect, test } from 'vitest'
import { MillraceError } from '../../src/core/errors.js'
import { compileBackoff } from '../../src/core/options.js'
import { Alarm } from '../../src/outbox/alarm.js'
import { Health } from '../../src/outbox/health.js'
import { judge } from '../../src/outbox/judge.js'
import { Snapshot } from '../../src/outbox/stores/postgres/replication/snapshot.js'
import { type Delivery, jobsTo } from '../../src/outbox/target.js'

const policy = {
  attempts: 3,
  backoff: compileBackoff({ initialDelay: 100, jitter: 'none' }),
  random: () => 0,
}
const refused: Delivery = { status: 'refused', error: new Error('no') }
const failed: Delivery = { status: 'failed', error: new Error('away') }

describe('the verdict on a batch', () => {
  test('a line stays from its first failure on, even where the target took later ones', () => {
    const rows = [row('a', 1), row('b', 2), row('a', 3), row(undefined, 4), row('a', 5)]
    const verdicts = judge(rows, [refused, 'done', 'done', 'done', failed], policy)
    expect(verdicts.map((verdict) => verdict.do)).toEqual(['hold', 'done', 'leave', 'done', 'leave'])
    expect(verdicts[0]).toEqual({ do: 'hold', delay: 100, attempts: 1, failure: 'Error: no' })
  })

  test('rows without a key are lines of their own', () => {
    const verdicts = judge([row(undefined, 1), row(undefined, 2)], [refused, 'done'], policy)
    expect(verdicts.map((verdict) => verdict.do)).toEqual(['hold', 'done'])
  })

  test('a row is set aside at its last refusal, and what the target held back behind it stays for now', () => {
    const rows = [row('a', 1, 2), row('a', 2, 2), row('b', 3, 2)]
    const verdicts = judge(rows, [refused, failed, 'done'], policy)
    expect(verdicts.map((verdict) => verdict.do)).toEqual(['set aside', 'leave', 'done'])
  })

  test('what had failed before is not held against the next one of its line', () => {
    const verdicts = judge([row('a', 1, 2), row('a', 2, 2)], ['done', refused], policy)
    expect(verdicts[1]).toMatchObject({ do: 'hold', attempts: 1 })
  })

  test('trouble of the target counts against no row, and delays grow with refusals', () => {
    expect(judge([row('a', 1, 2)], [failed], policy)[0]).toMatchObject({
      do: 'hold',
      attempts: 2,
      delay: 200,
    })
    expect(judge([row('a', 1, 1)], [refused], policy)[0]).toMatchObject({
      do: 'hold',
      attempts: 2,
      delay: 200,
    })
  })

  test('silence is a failure', () => {
    expect(judge([row('a', 1)], [], policy)[0]).toMatchObject({ do: 'hold', attempts: 0 })
  })
})

describe('the health of a target', () => {
  test('asks for more while it works, for less while it does not', () => {
    const health = new Health(500)
    expect(health.limit).toBe(500)
    for (let i = 0; i < 5; i++) health.failed()
    expect([health.limit, health.failures]).toEqual([1, 5])
    for (let i = 0; i < 3; i++) health.worked()
    expect([health.limit, health.failures]).toEqual([8, 0])
  })

  test('blames a row only when others have worked since it last spoilt a batch', () => {
    const health = new Health(500)
    expect(health.blames(row('a', 1))).toBe(false)
    expect(health.blames(row('a', 1))).toBe(false)
    health.worked()
    expect(health.blames(row('a', 1))).toBe(true)
    expect(health.blames(row('a', 1))).toBe(false)
  })
})

describe('jobs', () => {
  test('a delay counts from when the row was written, a time stands', async () => {
    const got: unknown[] = []
    const target = jobsTo({
      async insert(jobs) {
        got.push(...jobs)
        return jobs.map(() => ({ status: 'inserted', state: 'pending' }))
      },
    })
    const bodies = [{ delay: 1000 }, { delay: 100 }, { delay: 50, runAt: 7 }]
    const rows = bodies.map((body, i) => ({ ...row('a', i), age: 400, body: JSON.stringify(body) }))
    expect(await target.deliver(rows, new AbortController().signal)).toEqual(['done', 'done', 'done'])
    expect(got).toEqual([{ delay: 600 }, { delay: 0 }, { delay: 0, runAt: 7 }])
  })

  test('the one at fault is found; a full queue and a store in trouble are not its fault', async () => {
    const signal = new AbortController().signal
    const rows = ['good', 'bad', 'full', 'shed', '{'].map((id, i) => ({
      ...row(undefined, i),
      body: id === '{' ? '{' : JSON.stringify({ id, delay: 0, queue: 'q' }),
    }))
    const target = jobsTo({
      async insert(jobs) {
        if (jobs.some(({ id }) => id === 'bad')) throw new MillraceError('INVALID_INPUT', 'bad')
        return jobs.map(({ id }) => ({
          status: id === 'full' || id === 'shed' ? id : 'inserted',
          state: undefined,
        }))
      },
    })
    const deliveries = await target.deliver(rows, signal)
    expect(deliveries.map((delivery) => (delivery === 'done' ? delivery : delivery.status))).toEqual([
      'done',
      'refused',
      'failed',
      'failed',
      'refused',
    ])
    const away = jobsTo({ insert: () => Promise.reject(new MillraceError('STORE_UNAVAILABLE', 'away')) })
    await expect(away.deliver(rows, signal)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })
})

describe('an alarm', () => {
  test('wakes one for each signal, keeps one that comes early, and ends', async () => {
    const alarm = new Alarm()
    alarm.ring()
    await alarm.wait(60_000)
    let awake = 0
    const waits = [1, 2].map(() => alarm.wait(60_000).then(() => awake++))
    alarm.ring()
    await Promise.race(waits)
    expect(awake).toBe(1)
    alarm.close()
    await Promise.all(waits)
    await alarm.wait(60_000)
  })
})

test('a snapshot knows transactions by the lower half of their numbers', () => {
  const snapshot = new Snapshot('100:110:103,105')
  expect([99, 102, 103, 105, 109, 110, 111].map((xid) => snapshot.hasSeen(xid))).toEqual([
    true,
    true,
    false,
    false,
    true,
    false,
    false,
  ])
  const turn = 2 ** 32
  const late = new Snapshot(`${turn - 5}:${turn + 5}:${turn - 3},${turn + 2}`)
  expect([turn - 6, turn - 4, turn - 3].map((xid) => late.hasSeen(xid))).toEqual([true, true, false])
  expect([1, 2, 4, 5, 6].map((xid) => late.hasSeen(xid))).toEqual([true, false, true, false, false])
  expect(new Snapshot('7:7:').hasSeen(-1)).toBe(true) // as a signed number, and before the turn
})

function row(key: string | undefined, seq: number, attempts?: number): Row {
  return {
    kind: 'message',
    id: `${seq}`,
    slot: 0,
    seq,
    key,
    topic: 'a',
    body: '1',
    headers: undefined,
    at: 0,
    age: 0,
    attempts,
  }
}
