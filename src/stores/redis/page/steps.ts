/** Steps as they were written: a letter, their number, a colon, and what they are. */
export function inOrder(steps: readonly string[]): string[] {
  const numbered = steps.map((text) => {
    const colon = text.indexOf(':')
    return { n: Number(text.slice(1, colon)), state: text.slice(colon + 1) }
  })
  return numbered.sort((a, b) => a.n - b.n).map(({ state }) => state)
}
