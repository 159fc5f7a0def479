import { defineJob, type MillraceOptions } from 'millrace'
import { type Place, storeAt } from '../place.js'

export const tick = defineJob<null>({ name: 'tick', retain: '1h', maxCrashes: 1_000, run: () => {} })

export function scheduleMill(place: Place): MillraceOptions {
  return { store: storeAt(place), jobs: [tick] }
}
