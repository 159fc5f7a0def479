import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { Arrivals } from './arrivals.js'
import { Closing } from './closing.js'
import { Front } from './front.js'
import { shopJobs } from './jobs.js'
import type { ShopOptions } from './options.js'
import { LiveWeather, MailServer, PaymentGateway } from './services.js'
import { makeShop, startWork, stopWork } from './shop.js'

/** Runs the shop until Ctrl-C or the end of `duration`, then drains. Returns the exit code. */
export async function runLive({ file, rate, duration }: ShopOptions): Promise<number> {
  mkdirSync(dirname(file), { recursive: true })
  const weather = new LiveWeather(rate)
  const services = { gateway: new PaymentGateway(weather), mail: new MailServer(250) }
  const pace = { firstRetry: '500ms', longestRetry: '5s', mailTimeout: '2s', reportStep: 100 }
  const shop = makeShop(`sqlite:${file}`, shopJobs(services, pace))
  const front = new Front(shop, weather, { file, rate })
  const arrivals = new Arrivals(shop, rate, (error) => front.trouble(error))

  await front.open()
  const closing = new Closing(duration)
  try {
    await startWork(shop)
    arrivals.start()
    await closing.begun
    await front.drain()
    await arrivals.stop()
    void closing.forced.then(() => stopWork(shop, true))
    await stopWork(shop, false)
  } finally {
    await front.close()
    await shop.mill.close()
    closing.end()
  }
  return 0
}
