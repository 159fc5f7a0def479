/** What happens between this process and the server, until the test is over. */
import { onTestFinished } from 'vitest'
import type { Script } from '../../src/stores/redis/script.js'
import { Shard } from '../../src/stores/redis/shard.js'

type Run = Shard['run']

/** Returns what ends it earlier. */
export function intercept(
  around: (run: () => ReturnType<Run>, script: Script, shard: Shard) => ReturnType<Run>,
): () => void {
  const { run } = Shard.prototype
  Shard.prototype.run = function (this: Shard, ...args) {
    return around(() => run.apply(this, args), args[0], this)
  }
  const end = () => {
    Shard.prototype.run = run
  }
  onTestFinished(end)
  return end
}

/** Names of the scripts that run. */
export function watchScripts(): string[] {
  const names: string[] = []
  intercept((run, { name }) => {
    names.push(name)
    return run()
  })
  return names
}

/** What the server refuses. */
export function watchRefusals(): string[] {
  const codes: string[] = []
  intercept(async (run) => {
    try {
      return await run()
    } catch (error) {
      codes.push((error as { code: string }).code)
      throw error
    }
  })
  return codes
}

/** As if the first answer had got lost. */
export function twice(repeated: Script): void {
  intercept(async (run, script) => {
    if (script === repeated) await run()
    return run()
  })
}

/** The run with this number, from 1 on, never gets to the server. */
export function failing(awaited: Script, number: number, error: Error): void {
  let runs = 0
  intercept(async (run, script) => {
    if (script === awaited && ++runs === number) throw error
    return run()
  })
}

/** Once, right before the script runs. */
export function before(awaited: Script, work: () => Promise<void>): void {
  let isDone = false
  intercept(async (run, script) => {
    if (script === awaited && !isDone) {
      isDone = true
      await work()
    }
    return run()
  })
}
