/** The engines that `test/engine` runs on; each becomes a Vitest project of the same name. */
export const engines = ['memory', 'sqlite', 'postgres', 'redis', 'redis-cluster']
