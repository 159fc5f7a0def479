import type { ExchangeRequest } from 'millrace'
import { expect, test } from 'vitest'
import { Quiet } from '../../src/stores/redis/quiet.js'

const neverAsked = { run: () => Promise.reject(new Error('nothing is asked here')) } as never

function quiet(isListening = true): Quiet {
  return new Quiet(neverAsked, () => isListening)
}

function claim(token: string, queue = 'mail'): ExchangeRequest {
  const room = { shared: 2, own: [0, 0, 0, 0] }
  const picks = [{ queue, lane: 2, take: 2 }]
  return { worker: 'w', settlements: [], claim: { token, lease: 30_000, room, picks, turn: 0 } }
}

test('after a claim that left nothing, the next one is answered, until something happens', () => {
  const one = quiet()
  expect(one.answerTo(claim('a'))).toBeUndefined()
  one.asks(claim('a'))(true)
  expect(one.answerTo(claim('b'))?.claimed).toEqual([])
  expect(one.answerTo(claim('b', 'other'))).toBeUndefined()
  one.wake()
  expect(one.answerTo(claim('b'))).toBeUndefined()
})

test('a claim after which nobody is woken says nothing about what is left', () => {
  const one = quiet()
  one.asks(claim('a'))(false)
  expect(one.answerTo(claim('b'))).toBeUndefined()
})

test('a claim that is on its way answers no other: another worker asks for itself', () => {
  const one = quiet()
  one.asks(claim('a'))(true)
  one.wake()
  one.asks(claim('b'))
  expect(one.answerTo(claim('c'))).toBeUndefined()
})

test('what happens while a claim is on its way counts', () => {
  const one = quiet()
  const learn = one.asks(claim('a'))
  one.wake()
  learn(true)
  expect(one.answerTo(claim('b'))).toBeUndefined()
})

test('a claim whose answer was lost is asked again, and who is not heard asks always', () => {
  const one = quiet()
  one.asks(claim('lost'))
  one.asks(claim('a'))(true)
  expect(one.answerTo(claim('b'))).toBeDefined()
  expect(one.answerTo(claim('lost'))).toBeUndefined()
  const deaf = quiet(false)
  deaf.asks(claim('a'))(true)
  expect(deaf.answerTo(claim('b'))).toBeUndefined()
})
