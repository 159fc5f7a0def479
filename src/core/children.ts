import { childFailed } from './child-failed.js'
import { type Child, checkDefinition, type JobContext } from './definition.js'
import { MillraceError } from './errors.js'

export interface ChildPage {
  /** Those that have ended. */
  readonly children: readonly Child[]
  /** Ids of those that have not. */
  readonly open: readonly string[]
  readonly cursor: string | undefined
}

/** Which children of a job. */
export interface WhichChildren {
  /** Those of one definition. */
  readonly name?: string | undefined
  /** Those that no step has added. */
  readonly given?: boolean | undefined
  /** Those whose ids begin so. */
  readonly prefix?: string | undefined
}

/** Children of a running job, page by page. */
export type ReadChildren = (which: WhichChildren, cursor: string | undefined) => Promise<ChildPage>

/** The part of a handler's context that is about its children, wherever it runs. */
export class Children {
  readonly #read: ReadChildren

  constructor(read: ReadChildren) {
    this.#read = read
  }

  readonly all: JobContext['children'] = (job) =>
    this.#all(job?.name) as AsyncGenerator<never, void, undefined>

  readonly results: JobContext['results'] = async (job) => {
    checkDefinition(job)
    const results: never[] = []
    for await (const { state, result } of this.#all(job.name))
      if (state === 'completed') results.push(result as never)
    return results
  }

  readonly resultOf: JobContext['resultOf'] = async (job, node) => {
    checkDefinition(job)
    for await (const child of this.#all(job.name)) {
      if (node !== undefined && child.node !== node) continue
      if (child.state === 'completed') return child.result as never
      throw childFailed('CHILD_FAILED', child)
    }
    throw noSuchChild(job.name, node)
  }

  async *#all(name: string | undefined): AsyncGenerator<Child, void, undefined> {
    const read = (cursor?: string) => this.#read({ name, given: true }, cursor)
    let next: Promise<ChildPage> | undefined = read()
    while (next !== undefined) {
      const { children, cursor }: ChildPage = await next
      // The next page is on its way while this one is looked at; whoever stops here never hears that it failed.
      next = cursor === undefined ? undefined : read(cursor)
      next?.catch(() => {})
      yield* children
    }
  }
}

function noSuchChild(name: string, node: string | undefined): MillraceError {
  const which = node === undefined ? `of job '${name}'` : `'${node}' of job '${name}'`
  const text = `this job waited for no child ${which}, or is not to see that it failed (\`onFailure: 'ignore'\`)`
  return new MillraceError('CHILD_FAILED', text, { field: 'job', value: name })
}
