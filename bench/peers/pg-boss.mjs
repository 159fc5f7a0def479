// pg-boss: https://pgboss.io
//
// Its defaults: `work` takes one job every two seconds; a completed job stays for 7 days, then its maintenance
// deletes it. Tuned: see postgres-tuning.mjs. Jobs are added with `insert` where Millrace adds many.
//
// It cannot run without retention, so unlike the others it never pays for deleting a job inside the clock.
//
// package.json holds rrule-temporal, which it needs for recurring schedules only, at a version that could be
// installed; nothing here has a schedule.
import { PgBoss } from 'pg-boss'
import { batch, pgBoss, pgBossQueue, pgBossWork } from '../postgres-tuning.mjs'
import { bursts, expectEqual, inputs, rate, warmup } from '../workload.mjs'

const queue = 'noop'

/** Through `work`, or with `raw` by the bare loop of `fetch` and `complete`. */
export async function processJobs({ url, jobs, raw = false, enqueueInside = false }) {
  const boss = await open(url)
  const work = raw ? fetchAndComplete : workUntil
  const early = warmup(jobs)
  await addMany(boss, early)
  await work(boss, early)
  if (!enqueueInside) await addMany(boss, jobs)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await addMany(boss, jobs)
    await work(boss, jobs)
  })
  expectEqual('completed jobs', await count(boss, 'completed'), early + jobs)
  await boss.stop({ graceful: false })
  return { rate: speed }
}

export async function enqueueJobs({ url, jobs }) {
  const boss = await open(url)
  const add = async (total) => {
    for (const some of bursts(total)) await Promise.all(some.map((one) => boss.send(queue, one)))
  }
  await add(warmup(jobs))
  const before = await count(boss, 'created')
  const speed = await rate(jobs, () => add(jobs))
  expectEqual('jobs added', (await count(boss, 'created')) - before, jobs)
  await boss.stop({ graceful: false })
  return { rate: speed }
}

async function open(url) {
  const boss = new PgBoss({ connectionString: url, ...pgBoss })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(queue, pgBossQueue)
  return boss
}

async function addMany(boss, total) {
  const all = inputs(total)
  for (let n = 0; n < total; n += batch) {
    await boss.insert(
      queue,
      all.slice(n, n + batch).map((data) => ({ data })),
    )
  }
}

/** A batch is completed after its handler; `offWork` waits for that. */
async function workUntil(boss, total) {
  let done = 0
  let finish
  const finished = new Promise((resolve) => {
    finish = resolve
  })
  await boss.work(queue, pgBossWork, async (jobs) => {
    for (const { data } of jobs) await run(data)
    done += jobs.length
    if (done >= total) finish()
  })
  await finished
  await boss.offWork(queue, { wait: true })
  expectEqual('jobs run', done, total)
}

async function fetchAndComplete(boss, total) {
  let done = 0
  while (done < total) {
    const jobs = await boss.fetch(queue, { batchSize: batch })
    for (const { data } of jobs) await run(data)
    await boss.complete(
      queue,
      jobs.map(({ id }) => id),
    )
    done += jobs.length
  }
  expectEqual('jobs run', done, total)
}

async function run(_data) {}

async function count(boss, state) {
  const text = 'SELECT count(*)::int AS count FROM pgboss.job WHERE name = $1 AND state = $2'
  const { rows } = await boss.getDb().executeSql(text, [queue, state])
  return rows[0].count
}
