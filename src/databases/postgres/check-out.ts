import type { PgPool, PgPoolClient } from './driver.js'
import { closed, connectError, NoConnection } from './errors.js'
import type { Timeouts } from './options.js'

/** Those who have asked for a connection and not been given one yet. */
export type Waiting = Set<(error: unknown) => void>

/** The caller's pool may wait for ever; we do not. What comes too late goes straight back. */
export function checkOut(pool: PgPool, within: number, waiting: Waiting): Promise<PgPoolClient> {
  return new Promise((resolve, reject) => {
    const refuse = (error: unknown) => {
      clearTimeout(timer)
      waiting.delete(refuse)
      reject(connectError(error))
    }
    const timer = setTimeout(() => {
      refuse(new NoConnection(`no connection became free within ${Math.round(within)} ms`))
    }, within)
    waiting.add(refuse)
    pool.connect().then((client) => {
      if (!waiting.delete(refuse)) return client.release()
      clearTimeout(timer)
      resolve(client)
    }, refuse)
  })
}

export function refuseAll(waiting: Waiting): void {
  for (const refuse of waiting) refuse(closed())
}

/** Keep-alive finds out about idle connections, our own deadlines about busy ones. */
export function liveliness({ connect }: Timeouts): object {
  return { connectionTimeoutMillis: connect, keepAlive: true, keepAliveInitialDelayMillis: 10_000 }
}
