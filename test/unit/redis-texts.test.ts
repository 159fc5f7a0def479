/** What is kept in Redis as texts is read as it was written. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { NewFamily } from '../../src/core/family.js'
import { givenText } from '../../src/stores/page/job-row.js'
import { type Body, readBody, writeBody } from '../../src/stores/redis/body.js'
import { readLinkText, writeLinkText } from '../../src/stores/redis/page/link-text.js'
import { readStory, writeStory } from '../../src/stores/redis/story.js'
import { readUnusual, unusualOf } from '../../src/stores/redis/unusual.js'
import { newJob } from '../new-job.js'

const text = fc.string({
  unit: fc.oneof(fc.constantFrom(';', '\n', '{', '+', '[', '\x1e', '"', '0'), fc.string()),
})
const json = text.map((value) => JSON.stringify({ value }))
const maybe = <T>(some: fc.Arbitrary<T>) => fc.option(some, { nil: null })
const time = fc.integer({ min: 0, max: 4e12 })

test('a body', () => {
  const body: fc.Arbitrary<Body> = fc.record({
    kind: fc.nat(1e6),
    seq: fc.nat({ max: 2 ** 40 }),
    created_at: time,
    child_of: fc.constant(null),
    unusual: maybe(json),
    max_attempts: fc.nat(1000),
    max_crashes: fc.nat(1000),
    input: text,
    overrides: maybe(json),
    tags: maybe(json),
    search: maybe(json),
    metadata: maybe(json),
  })
  const ofChild = fc.tuple(body, time, json).map(([of, child_of, unusual]) => ({ ...of, child_of, unusual }))
  fc.assert(fc.property(fc.oneof(body, ofChild), (one) => void expect(readBody(writeBody(one))).toEqual(one)))
})

test('a story', () => {
  const story = fc.record({
    state: fc.nat(7),
    special: fc.boolean(),
    isParent: fc.boolean(),
    rank: maybe(time),
    finished_at: maybe(time),
    rest: maybe(json),
  })
  fc.assert(fc.property(story, (one) => void expect(readStory(writeStory(one))).toEqual(one)))
})

test('a link', () => {
  const link = fc.record({
    parent: fc.nat(),
    child: fc.string(),
    fan: maybe(text),
    state: json,
    ended_at: maybe(time),
  })
  // Only of what has completed there is a result here.
  const ended = fc.tuple(link, time, maybe(text.filter((result) => result !== '')))
  const any = fc.oneof(
    link.map((of) => ({ ...of, ended_at: null, result: null })),
    ended.map(([of, ended_at, result]) => ({ ...of, ended_at, result })),
  )
  fc.assert(
    fc.property(
      any,
      (one) => void expect(readLinkText(one.parent, one.child, writeLinkText(one))).toEqual(one),
    ),
  )
})

describe('what is unusual', () => {
  const id = fc.string({ unit: fc.constantFrom('a', 'b', '0', '=', '+', '/', '#', '@', ':'), minLength: 1 })
  const child = fc.record({
    flow: id,
    node: fc.option(id, { nil: undefined }),
    parents: fc.array(
      fc.record({
        id,
        onFailure: fc.constantFrom('fail', 'continue', 'ignore', 'compensate'),
        wakes: fc.boolean(),
        undo: fc.option(text, { nil: undefined }),
        fan: fc.option(text, { nil: undefined }),
      }),
      { maxLength: 2 },
    ),
    waits: fc.constantFrom('no', 'open'),
    patience: time,
    stays: fc.option(fc.boolean(), { nil: undefined }),
  }) as fc.Arbitrary<NewFamily>

  test('about any family', () => {
    fc.assert(
      fc.property(child, (family) => {
        const job = newJob({ id: 'a', family })
        expect(readUnusual(unusualOf(job) as string)).toBe(givenText(job))
      }),
    )
  })

  test('about a child like most is short', () => {
    const parents = [{ id: 'top', onFailure: 'fail', wakes: false, undo: undefined }] as const
    const family = { flow: 'top', node: undefined, parents, waits: 'no', patience: 1000 } as const
    expect(unusualOf(newJob({ id: 'a', family }))).toBe('{"child":["top",0,"fail",1000]}')
  })

  test('about a job like most is nothing', () => {
    expect(unusualOf(newJob({ id: 'a' }))).toBe(null)
  })
})
