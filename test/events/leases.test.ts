/** A worker that stood still, and somebody else had its part meanwhile. */
import type { EventLog } from 'millrace/events'
import { expect, test } from 'vitest'
import { gate, summed, working } from './followers.js'
import { deposits, withVerbs } from './stores.js'

test('a lease that another has had since is not renewed, although nobody has it now', async () => {
  const [standing, renewed, goOn] = [gate(), gate(), gate()]
  let isStanding = false
  let processes = 0
  /** The first process stands still with a page in its hand; the first that it does then is to renew its lease. */
  const standStill = (log: EventLog) => {
    if (++processes > 1) return log
    const hold: EventLog['hold'] = async (request) => {
      if (!isStanding) return log.hold(request)
      await goOn.passed
      const held = await log.hold(request)
      renewed.open()
      return held
    }
    const begin: EventLog['begin'] = async () => {
      if (isStanding) {
        standing.open()
        await renewed.passed
      }
      return log.begin()
    }
    return withVerbs(log, { hold, begin })
  }
  const { store, process, read, clock } = await summed(() => {}, {}, standStill)
  const other = await process()
  await deposits(other, 'account-1', 2)
  const worker = await working(store, { lease: '300ms' })
  await expect.poll(() => worker.active).toBe(1)
  isStanding = true
  await deposits(other, 'account-1', 1)
  await standing.passed
  await clock.advance(60_000)
  await other.catchUp()
  goOn.open()
  await renewed.passed
  await worker.stop()
  expect(await read()).toEqual(['account-1: 4/3'])
})
