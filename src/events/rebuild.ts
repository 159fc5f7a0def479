import { Builder } from './builder.js'
import type { Projection } from './define-projection.js'
import { dropTable } from './drop-table.js'
import { contextOf, inTransaction, makeTable, recordOf } from './generations.js'
import type { CompiledRebuild, Rebuilt } from './rebuild-options.js'
import type { EventRuntime } from './runtime.js'
import { tableOf } from './table.js'

/**
 * Builds the next generation beside the live one, by the handlers of this process, and swaps. It goes on where another
 * left off.
 */
export async function rebuild(
  runtime: EventRuntime,
  projection: Projection,
  options: CompiledRebuild,
): Promise<Rebuilt> {
  options.signal?.throwIfAborted()
  await runtime.ready()
  const generation = await begun(runtime, projection)
  const builder = new Builder(runtime, projection, generation, options)
  try {
    await builder.build()
  } finally {
    await builder.leave()
  }
  return { generation, table: tableOf(projection.name, generation) }
}

/** Gives up what is being built; false when nothing is. */
export async function abandonRebuild(runtime: EventRuntime, projection: Projection): Promise<boolean> {
  await runtime.ready()
  const { building: generation } = await recordOf(runtime, projection)
  if (generation === undefined) return false
  await runtime.log.rebuild({ do: 'abandon', name: projection.name, generation })
  await dropTable(runtime, projection, generation)
  return true
}

/** The generation that is being built, by whomever it was begun. */
async function begun(runtime: EventRuntime, projection: Projection): Promise<number> {
  const before = await recordOf(runtime, projection)
  if (before.building !== undefined) return before.building
  try {
    return await inTransaction(runtime, async (tx) => {
      const { building = 0, live } = await runtime.log.rebuild({ do: 'begin', name: projection.name }, tx)
      // What was left behind by a process that was killed before it could remove it.
      if (live > 1) await projection.drop?.(contextOf(projection, live - 1, tx))
      await makeTable(projection, building, tx)
      return building
    })
  } catch (error) {
    const { building } = await recordOf(runtime, projection)
    if (building === undefined) throw error
    return building
  }
}
