// Servers are those of the tests, as they were built: they end with this process, however it ends.
import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A module of test/servers. */
export function builtServer(name) {
  return import(new URL(`../.build/test/servers/${name}.js`, import.meta.url).href)
}

/** In the checkout, because a temporary folder may be a file system in memory, where nothing is durable. */
export function durableFolder() {
  const path = fileURLToPath(new URL('../tmp/', import.meta.url))
  mkdirSync(path, { recursive: true })
  return path
}
