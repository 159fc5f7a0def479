import { createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Takes connections and never says a word; answers its port. */
export async function silentServer(): Promise<number> {
  const sockets: Socket[] = []
  const silent = createServer((socket) => {
    socket.on('error', () => {})
    sockets.push(socket)
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  return (silent.address() as { port: number }).port
}
