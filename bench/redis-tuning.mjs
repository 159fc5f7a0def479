// How each side is set on Redis: what the peers' modules pass on, and what a run prints.

/** Jobs in one bulk insert or claim, wherever a peer lets it be chosen. */
export const batch = 500

/** Bulk inserts on their way at once: with eight, both peers are about a quarter faster than with one. */
const bulks = 8

/** `all` in bulks, each of which `add` sends. */
export async function inBulks(all, add) {
  const parts = []
  for (let n = 0; n < all.length; n += batch) parts.push(all.slice(n, n + batch))
  for (let n = 0; n < parts.length; n += bulks) await Promise.all(parts.slice(n, n + bulks).map(add))
}

/** Its pages on auto-removal and on connections. */
export const bullmqJobs = { removeOnComplete: true, removeOnFail: true }
export const bullmqConnection = { maxRetriesPerRequest: null }

/** Its README: what nobody listens to is switched off, and what is done is removed. */
export const beeQueue = {
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  removeOnSuccess: true,
  removeOnFailure: true,
}

/** Lines for the setup. */
export const describeTuning = () => [
  `tuning    bullmq: ioredis, ${text({ ...bullmqJobs, ...bullmqConnection })}; addBulk of ${batch}, ${bulks} at once`,
  `tuning    bee-queue: ${text(beeQueue)}; saveAll of ${batch}, ${bulks} at once`,
  `tuning    ceiling: ioredis, one connection, batches of ${batch}`,
]

function text(settings) {
  return JSON.stringify(settings).replaceAll('"', '').replaceAll(',', ', ').replaceAll(':', ': ')
}
