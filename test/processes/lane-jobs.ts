/** Jobs with a limit, with groups, and with neither, in one queue that has a limit of its own. */
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, type MillraceOptions } from 'millrace'
import { type Place, storeAt } from '../place.js'

export interface Work {
  readonly ms: number
  readonly tenant: string
}

const common = { retain: '1h', maxCrashes: 1_000, run: ({ ms }: Work) => sleep(ms) } as const

export const mail = defineJob({ ...common, name: 'mail', limit: { concurrency: 8 } })
export const image = defineJob({ ...common, name: 'image', group: ({ tenant }: Work) => tenant })
export const report = defineJob({ ...common, name: 'report' })

/** Of the queue, and of each worker. */
export const atOnce = 12
export const concurrency = 4

export function laneMill(place: Place): MillraceOptions {
  return {
    store: storeAt(place),
    jobs: [mail, image, report],
    queues: { default: { limit: { concurrency: atOnce } } },
  }
}
