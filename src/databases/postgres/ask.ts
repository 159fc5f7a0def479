import type { PgClient, PgQuery, PgResult } from './driver.js'
import { NoAnswer } from './errors.js'

/** One question, one answer, or an error when none comes in time: then whoever asked gives the connection up. */
export function ask(client: PgClient, query: PgQuery, within: number): Promise<PgResult> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new NoAnswer(`the server did not answer within ${Math.round(within)} ms`))
    // A process that was busy itself first reads what has come meanwhile.
    const timer = setTimeout(() => setImmediate(giveUp), within)
    client.query(query, (error, result) => {
      clearTimeout(timer)
      if (error) reject(error)
      else resolve(result)
    })
  })
}
