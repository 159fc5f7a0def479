/** The network that tests make to fail has to heal as a network does. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FaultyProxy, startProxy } from '../servers/proxy.js'

const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket))
let proxy: FaultyProxy

beforeEach(async () => {
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  proxy = await startProxy(`tcp://127.0.0.1:${(echo.address() as AddressInfo).port}`)
})

afterEach(async () => {
  await proxy.close()
  await new Promise((resolve) => echo.close(resolve))
})

test('what waits in a slow network comes through in order as soon as it is quick again', async () => {
  const sent = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251))
  const received: Buffer[] = []
  const socket = connect(proxy.port, '127.0.0.1')
  const whole = new Promise<void>((resolve) => {
    socket.on('data', (part) => {
      received.push(part)
      if (Buffer.concat(received).length === sent.length) resolve()
    })
  })
  await once(socket, 'connect')
  proxy.slow(8_000)
  socket.write(sent)
  await once(socket, 'data')
  expect(Buffer.concat(received).length).toBeLessThan(2_000)

  const healedAt = performance.now()
  proxy.heal()
  await whole
  expect(performance.now() - healedAt).toBeLessThan(2_000)
  expect(Buffer.concat(received).equals(sent)).toBe(true)
  socket.destroy()
})
