/**
 * The disk is full for longer than a lease. Enqueues are refused with STORE_FULL, nothing that was
 * acknowledged is lost, and work goes on when there is space again, in the same processes.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type Arena, sleep } from '../arena.js'
import { type Fault, inArena } from '../fault.js'
import { emptyRow, type Row } from '../row.js'
import { settings } from '../settings.js'

export const fullDisk: Fault = {
  name: 'full-disk',
  weight: 0,
  engines: ['sqlite'],
  async run(options) {
    const disk = join(options.folder, 'disk')
    mkdirSync(disk, { recursive: true })
    const refusal = mount(disk)
    if (refusal !== undefined) {
      // There is no other way in: a page limit would have to be set on the store's own connection.
      const note = `NOT INJECTED: ${refusal}`
      return { ...emptyRow(options.engine, options.fault, options.random.seed), note }
    }
    // Also when the harness is interrupted, and before its folder is removed.
    const unmount = () => spawnSync('umount', ['-l', disk])
    process.prependOnceListener('exit', unmount)
    try {
      return await inArena({ ...options, storeFolder: disk }, (arena) => attack(arena, disk))
    } finally {
      process.off('exit', unmount)
      unmount()
    }
  },
}

async function attack(arena: Arena, disk: string): Promise<Row> {
  const rounds = Math.max(1, Math.round(3 * arena.options.scale))
  await Promise.all([arena.startWorker(), arena.startWorker()])
  const producer = arena.launchProducer({ jobs: Number.MAX_SAFE_INTEGER, pauseMs: 30, ballastBytes: 500 })
  await producer.ready
  const resumed: number[] = []
  for (let round = 0; round < rounds; round++) {
    await sleep(700)
    const ballast = join(disk, 'ballast')
    fill(ballast)
    const refused = await arena.waitUntil(async () => !(await accepts(arena)), 5_000)
    if (!refused) arena.accuse('harness', 'no enqueue was refused on the full disk')
    await sleep(settings.leaseMs * 1.5)
    rmSync(ballast)
    const t = Date.now()
    const again = await arena.waitUntil(() => accepts(arena), settings.recoveryLimitMs)
    if (!again) arena.accuse('I13', 'enqueues are refused although there is space again')
    resumed.push(Date.now() - t)
    arena.options.progress(`${round + 1} of ${rounds} rounds`)
  }
  producer.signal('SIGTERM')
  await arena.ended(producer, 0)
  return arena.judge({
    injected: rounds,
    allowedErrors: ['STORE_FULL'],
    inspect: ({ events }) => {
      const shown = events.filter((event) => event.e === 'enqueue-refused' || event.e === 'error').length
      return `${shown} refusals, all STORE_FULL; accepted again after ${Math.max(...resumed)} ms`
    },
  })
}

async function accepts(arena: Arena): Promise<boolean> {
  return (await arena.enqueue([{ ballast: 'x'.repeat(2_000) }])).length > 0
}

/** Takes all the space there is. */
function fill(file: string): void {
  const fd = openSync(file, 'w')
  for (let size = 1 << 20; size >= 512; ) {
    try {
      writeSync(fd, Buffer.alloc(size))
    } catch {
      size /= 2
    }
  }
  closeSync(fd)
}

function mount(folder: string): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'mounting a small disk needs root on Linux'
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', folder], {
    encoding: 'utf8',
  })
  return status === 0 ? undefined : `mount failed: ${stderr?.trim()}`
}
