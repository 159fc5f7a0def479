import fc from 'fast-check'
import { jsonCodec } from 'millrace'
import { expect, test } from 'vitest'

const most = 1024 * 1024
const value = fc.anything({
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withSparseArray: false,
  withNullPrototype: false,
})

test('whatever is encoded comes back the same', async () => {
  await fc.assert(
    fc.asyncProperty(value, async (original) => {
      let text: string
      try {
        text = jsonCodec.encode(original, 'input', most)
      } catch (error) {
        expect((error as { code: string }).code).toMatch(/^PAYLOAD_/)
        return
      }
      expect(jsonCodec.decode(text)).toEqual(original)
      // Only ASCII escapes, or text that UTF-8 can carry: any store keeps it.
      expect(text.isWellFormed() && !text.includes('\0')).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

test('plain data is plain JSON, so that it can be searched', () => {
  const plain = { a: [1, 'x', null, true, { b: undefined }], c: -1.5 }
  expect(jsonCodec.encode(plain, 'input', most)).toBe(JSON.stringify(plain))
})

test('data that looks like a tag stays data', () => {
  for (const odd of [
    { $millrace: ['date', 'x'] },
    { a: { $millrace: null } },
    { $millrace: { $millrace: [1n] } },
  ]) {
    expect(jsonCodec.decode(jsonCodec.encode(odd, 'input', most))).toEqual(odd)
  }
})

test('the size is counted in bytes of UTF-8', () => {
  expect(() => jsonCodec.encode('x'.repeat(98), 'input', 100)).not.toThrow()
  expect(() => jsonCodec.encode('x'.repeat(99), 'input', 100)).toThrow(/101 bytes, the limit is 100 bytes/)
  expect(() => jsonCodec.encode('é'.repeat(49), 'input', 100)).not.toThrow()
  expect(() => jsonCodec.encode('é'.repeat(50), 'input', 100)).toThrow(/102 bytes/)
  expect(() => jsonCodec.encode('💥'.repeat(25), 'input', 100)).toThrow(/102 bytes/)
})
