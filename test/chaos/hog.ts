/** Somebody in the process of a worker who takes all connections of the pool that both use, again and again. */
import pg from 'pg'

/** Plain data, as places are. */
export interface Hog {
  readonly connections: number
  readonly holdMs: number
  readonly restMs: number
  /** From the start of the process; then it leaves the pool alone. */
  readonly forMs: number
}

/** The pool, with the hog at work in it. */
export function startHog(url: string, hog: Hog): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: hog.connections, application_name: 'millrace' })
  pool.on('error', () => {})
  void takeAll(pool, hog)
  return pool
}

async function takeAll(pool: pg.Pool, { connections, holdMs, restMs, forMs }: Hog): Promise<void> {
  const end = Date.now() + forMs
  while (Date.now() < end) {
    await sleep(restMs)
    const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()))
    await sleep(holdMs)
    for (const client of clients) client.release()
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
