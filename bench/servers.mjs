// The servers that the chosen cases need, by name. Each is
//
//   use({ from, keep, shared }, work)   runs `work` with the URL of a place of its own: an empty one, or a copy of
//                                       what was kept as `from`; it is dropped afterwards, or kept as `keep`
//   dropKept()                          after each case
//   node                                what the measurements run on
//   lines                               about itself, for the setup
//   close()
//
// Loaded when they are used, so that the other engines are measured without them.
import { newerNode } from './setup.mjs'

const openers = {
  postgres: () => openPostgres(),
  'postgres-logical': () => openPostgres({ wal_level: 'logical' }),
  redis: openRedis,
}

export async function openServers(names) {
  const servers = new Map()
  for (const name of new Set(names)) {
    if (name !== undefined) servers.set(name, await openers[name]().catch((error) => noServer(name, error)))
  }
  return servers
}

async function openPostgres(settings = {}) {
  const node = newerNode()
  const [{ startPostgres }, { openDatabases }, { describeTuning }] = await Promise.all([
    import('./postgres-server.mjs'),
    import('./databases.mjs'),
    import('./postgres-tuning.mjs'),
  ])
  const started = await startPostgres(settings)
  // Should this fail, the server ends with this process.
  const databases = await openDatabases(started)
  return {
    ...databases,
    node,
    lines: [...(await databases.describe()), ...describeTuning()],
    async close() {
      try {
        await databases.close()
      } finally {
        await started.stop()
      }
    },
  }
}

async function openRedis() {
  const [{ redisServers }, { describeTuning }] = await Promise.all([
    import('./redis-server.mjs'),
    import('./redis-tuning.mjs'),
  ])
  const { use, describe } = await redisServers()
  return {
    use,
    dropKept: async () => {},
    node: process.execPath,
    lines: [...describe(), ...describeTuning()],
    close: async () => {},
  }
}

/** The cases that need it fail, the others run. */
function noServer(name, error) {
  const problem = `no server of ${name}: ${error.message}`
  return {
    use: async () => {
      throw new Error(problem)
    },
    dropKept: async () => {},
    node: undefined,
    lines: [problem],
    close: async () => {},
  }
}
