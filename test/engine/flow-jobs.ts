/** Jobs that tests of flows share. */
import { defineJob } from 'millrace'

export const square = defineJob({
  name: 'square',
  maxAttempts: 1,
  run: (n: number) => attempt(n, () => n * n),
})
export const sum = defineJob({
  name: 'sum',
  async run(_: null, { results }) {
    return (await results(square)).reduce((total, n) => total + n, 0)
  },
})

/** Fails until it is mended. */
export function makeFragile() {
  let broken = true
  const fragile = defineJob({
    name: 'fragile',
    maxAttempts: 1,
    run() {
      if (broken) throw new Error('broken')
      return 'mended'
    },
  })
  const mend = () => {
    broken = false
  }
  return { fragile, mend }
}

/** Inputs below zero fail. */
function attempt<T>(n: number, work: () => T): T {
  if (n < 0) throw new Error(`${n} is below zero`)
  return work()
}
