import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, type MillraceOptions } from 'millrace'
import { type Place, storeAt } from '../place.js'

const common = { retain: '1h', maxCrashes: 1_000, backoff: { type: 'fixed', initialDelay: 5 } } as const

/** Some fail at their first attempt. */
export const leaf = defineJob({
  ...common,
  name: 'leaf',
  async run(n: number, { attempt }) {
    await sleep(n % 20)
    if (n % 7 === 0 && attempt === 1) throw new Error('once')
    return n
  },
})

export const sum = defineJob({
  ...common,
  name: 'sum',
  run: async (_: null, { results }) => {
    const parts = [...(await results(leaf)), ...(await results(sums))]
    return parts.reduce((total, n) => total + n, 0)
  },
})

/** The same, one level below. */
export const sums = defineJob({
  ...common,
  name: 'sums',
  run: async (_: null, { results }) => (await results(leaf)).reduce((total, n) => total + n, 0),
})

export function familyMill(place: Place): MillraceOptions {
  return { store: storeAt(place), jobs: [leaf, sum, sums] }
}
