import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** A port of the loopback that nobody listens on at this moment. */
export function freePort(): Promise<number> {
  return listen(0)
}

/**
 * One below those that systems give to outgoing connections: while its server is down nobody gets it by chance,
 * not even a client that tries to connect to it. The port 10,000 above, where nodes of a cluster talk, is free too.
 */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_240, 22_700)
    try {
      await listen(port)
      await listen(port + 10_000)
      return port
    } catch {
      // Somebody has it: another one.
    }
  }
}

function listen(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(wanted, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
