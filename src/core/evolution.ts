import { MillraceError } from './errors.js'
import { integer, invalid } from './options.js'

/** The form of a definition's inputs, and what makes older ones of it. */
export interface CompiledEvolution {
  readonly version: number
  readonly upgrade: ((input: unknown, from: number) => unknown) | undefined
}

export function compileEvolution(raw: {
  readonly version?: number
  readonly upgrade?: CompiledEvolution['upgrade']
}): CompiledEvolution | undefined {
  const { version, upgrade } = raw
  if (upgrade !== undefined && typeof upgrade !== 'function')
    throw invalid('upgrade', upgrade, 'a function (input, from) => input')
  if (version === undefined) {
    if (upgrade === undefined) return undefined
    throw invalid(
      'version',
      version,
      'a whole number from 1 on beside `upgrade`, to tell old inputs from new ones',
    )
  }
  return { version: integer(version, 'version', 1, 1e9), upgrade }
}

/** A worker that has an older form must leave the job to one that has this. */
export function isTooNew(evolution: CompiledEvolution | undefined, version: number): boolean {
  return version > (evolution?.version ?? 0)
}

/** Whether the input has an older form than the definition. */
export function isOld(evolution: CompiledEvolution | undefined, version: number): boolean {
  return version < (evolution?.version ?? 0)
}

/** The input in the definition's form. An `upgrade` that fails would fail the next time too. */
export function upgraded(
  { name, evolution }: { readonly name: string; readonly evolution: CompiledEvolution | undefined },
  input: unknown,
  from: number,
): unknown {
  const { upgrade, version } = evolution ?? {}
  if (upgrade === undefined || !isOld(evolution, from)) return input
  try {
    const now = upgrade(input, from)
    return now instanceof Promise ? now.catch(fail) : now
  } catch (error) {
    return fail(error)
  }

  function fail(cause: unknown): never {
    const said = cause instanceof Error ? cause.message : String(cause)
    throw new MillraceError(
      'UPGRADE_FAILED',
      `upgrade of job '${name}' threw '${said}' for an input of version ${from}; it must know every version before ${version}`,
      { field: 'upgrade', value: from, limit: version, cause },
    )
  }
}
