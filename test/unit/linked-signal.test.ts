import { expect, test } from 'vitest'
import { LinkedSignal } from '../../src/system/linked-signal.js'

test('aborts with the other one, by itself, and no more once it was let go', () => {
  const other = new AbortController()
  const [linked, own, free] = [1, 2, 3].map(() => new LinkedSignal(other.signal))
  own?.abort('own')
  free?.letGo()
  other.abort('other')
  expect([linked, own, free].map((one) => one?.signal.reason)).toEqual(['other', 'own', undefined])
  expect(new LinkedSignal(other.signal).signal.reason).toBe('other')
})
