/** Numbers from 0 to 1 that come in the same order for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The fate of one thing: the same text always gives the same number from 0 to 1, in whatever order it is asked. */
export function luck(...about: readonly (string | number)[]): number {
  let hash = 0x811c9dc5
  for (const char of about.join('/')) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193)
  return seeded(hash)()
}
