/** A server that speaks TLS, with a certificate that its own authority has signed. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import { claim, insertOne } from '../../src/testing/conformance/helpers.js'
import { quietPort } from '../servers/port.js'
import { startOwnRedis } from '../servers/redis.js'
import { errorOf, freshPrefix, open } from './redis.js'

test('is used with the authority that the caller trusts', async () => {
  const { port, ca } = await startSecure()
  const client = new Redis({ host: '127.0.0.1', port, tls: { ca }, lazyConnect: true })
  onTestFinished(() => client.disconnect())
  const store = new RedisStore({ client, prefix: freshPrefix(), warn: false })
  onTestFinished(() => store.close())
  await store.open()
  const id = await insertOne(store, {})
  expect((await claim(store, 1)).map((job) => job.id)).toEqual([id])
})

test('is refused at once where nobody knows its authority, with a hint at TLS', async () => {
  const { port } = await startSecure()
  const error = await errorOf(open({ url: `rediss://127.0.0.1:${port}` }))
  expect(error).toMatchObject({ code: 'STORE_REFUSED' })
  expect(error.message).toContain('TLS settings')
})

async function startSecure() {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', cert], {
    stdio: 'pipe',
  })
  // The server runs as another user where this one is root.
  chmodSync(folder, 0o755)
  chmodSync(key, 0o644)
  const port = await quietPort()
  const files = { 'tls-cert-file': cert, 'tls-key-file': key, 'tls-ca-cert-file': cert }
  const server = await startOwnRedis({ settings: { 'tls-port': port, 'tls-auth-clients': 'no', ...files } })
  onTestFinished(() => server.stop())
  return { port, ca: readFileSync(cert, 'utf8') }
}
