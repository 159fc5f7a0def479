import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { engines } from './scripts/engines.mjs'

/** Started once for all files of an engine. */
const servers: Record<string, string[]> = {
  postgres: ['test/servers/global-postgres.ts'],
  redis: ['test/servers/global-redis.ts'],
  'redis-cluster': ['test/servers/global-redis-cluster.ts'],
}

const root = fileURLToPath(new URL('.', import.meta.url))

export default defineConfig({
  resolve: { alias: sourcesOfThePackage() },
  test: {
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 10_000,
    projects: [
      project('unit', ['test/unit']),
      project('examples', ['test/examples']),
      project('brokers', ['test/brokers']),
      // What every engine does, what those do that processes can share, and what only this one does.
      ...engines.map((engine) =>
        project(engine, foldersOf(engine), { MILLRACE_TEST_ENGINE: engine }, servers[engine]),
      ),
    ],
  },
})

/** A cluster runs the same code as one server does, so it repeats what goes through the store, and no more. */
function foldersOf(engine: string): string[] {
  if (engine === 'redis-cluster') return ['test/engine/{conformance,traffic,flows-*}']
  const shared = engine === 'memory' ? [] : ['test/processes']
  const events = ['memory', 'sqlite', 'postgres'].includes(engine) ? ['test/events'] : []
  const outbox = ['sqlite', 'postgres'].includes(engine) ? ['test/outbox'] : []
  return ['test/engine', ...shared, ...events, ...outbox, `test/${engine}`]
}

function project(
  name: string,
  folders: string[],
  env: Record<string, string> = {},
  globalSetup: string[] = [],
) {
  return {
    extends: true as const,
    test: {
      name,
      include: folders.map((folder) =>
        folder.includes('{') ? `${folder}.test.ts` : `${folder}/**/*.test.ts`,
      ),
      env,
      globalSetup,
    },
  }
}

/** Maps 'millrace' and its subpaths to src/, so that tests need no build. */
function sourcesOfThePackage() {
  const pkg: { name: string; exports: Record<string, string | { default: string }> } = JSON.parse(
    readFileSync(`${root}package.json`, 'utf8'),
  )
  return Object.entries(pkg.exports).flatMap(([subpath, target]) => {
    if (typeof target === 'string') return []
    const source = target.default.replace('./dist/', `${root}src/`).replace(/\.js$/, '.ts')
    return { find: new RegExp(`^${pkg.name}${subpath.slice(1)}$`), replacement: source }
  })
}
