import type { Directive, JobContext } from './definition.js'
import { MillraceError } from './errors.js'
import { defaults, integer, invalid, noUnknownIn, oneOf } from './options.js'

/** A job's work: gets the input and the context, gives the result or a directive. */
export type Handler<Input, Result> = (
  input: Input,
  context: JobContext,
) => Result | Directive | PromiseLike<Result | Directive>

/** A handler by the place where it can be loaded, with its types and nothing else of it. */
export interface HandlerModule<Input = unknown, Result = unknown> {
  readonly url: string
  readonly export: string
  /** For the compiler only; there is no such property. */
  readonly types?: (input: Input) => Result
}

export interface SandboxOptions {
  /**
   * What the handler is kept in. A `'process'` isolates whatever it does. A `'thread'` starts sooner and takes
   * less memory; it isolates a blocked event loop, `process.exit()` and errors that nobody caught. But
   * `process.abort()`, a crash of native code and one large allocation beyond `memory` end the worker's whole
   * process, and a thread that hangs in native code cannot be ended.
   * @default 'process'
   */
  readonly type?: 'thread' | 'process'
  /** MiB that the JavaScript heap may grow to; buffers lie outside of it. @default 512 */
  readonly memory?: number
  /**
   * `'always'`, or only for `'suspects'`: jobs that are suspected of killing their worker. Others then run in
   * the worker itself. A suspect gets a process, whatever `type` says.
   * @default 'always'
   */
  readonly use?: 'always' | 'suspects'
}

/** Where and how a definition's module runs. */
export interface CompiledSandbox {
  readonly url: string
  readonly export: string
  readonly type: 'thread' | 'process'
  readonly memory: number
  readonly use: 'always' | 'suspects'
}

/** Types the function that a handler's own module exports: `export default defineHandler(async (input: …) => …)`. */
export function defineHandler<Input, Result>(handler: Handler<Input, Result>): Handler<Input, Result> {
  if (typeof handler !== 'function') throw invalid('handler', handler, 'a function')
  return handler
}

// biome-ignore lint/suspicious/noExplicitAny: any handler, whatever it takes
type AnyFunction = (input: any, context: JobContext) => unknown
type InputOf<H> = H extends (input: infer Input, context: JobContext) => unknown ? Input : never
type ResultOf<H> = H extends AnyFunction ? Exclude<Awaited<ReturnType<H>>, Directive> : never

/**
 * A handler in a module of its own, typed by that module without loading it:
 * `run: fromModule<typeof import('./resize.job.js')>(new URL('./resize.job.js', import.meta.url))`.
 * An export other than the default one is named twice: `fromModule<typeof import('./a.js'), 'b'>(url, 'b')`.
 */
export function fromModule<Module extends Record<Name, AnyFunction>, Name extends string = 'default'>(
  url: URL | string,
  ...name: 'default' extends Name ? [name?: Name] : [name: Name]
): HandlerModule<InputOf<Module[Name]>, ResultOf<Module[Name]>> {
  return { url: fileUrl(url), export: name[0] ?? 'default' }
}

/** A handler given as a module; undefined when it is a function. */
export function compileSandbox(run: unknown, raw: SandboxOptions | undefined): CompiledSandbox | undefined {
  if (typeof run === 'function') {
    if (raw === undefined) return undefined
    throw invalid(
      'sandbox',
      raw,
      "a handler in a module of its own: run: new URL('./x.job.js', import.meta.url)",
    )
  }
  const module = isModule(run) ? run : { url: run, export: 'default' }
  noUnknownIn('sandbox', raw ?? {}, ['type', 'memory', 'use'])
  const use = oneOf(raw?.use ?? 'always', ['always', 'suspects'], 'sandbox.use')
  if (use === 'suspects' && raw?.type === 'thread')
    throw invalid('sandbox.type', raw.type, "'process' for suspects: they may end more than their thread")
  return {
    url: fileUrl(module.url),
    export: module.export,
    type: oneOf(raw?.type ?? 'process', ['thread', 'process'], 'sandbox.type'),
    memory: integer(raw?.memory ?? defaults.sandbox.memory, 'sandbox.memory', 16, 1 << 20),
    use,
  }
}

function isModule(run: unknown): run is HandlerModule {
  return typeof run === 'object' && run !== null && !(run instanceof URL) && 'export' in run
}

function fileUrl(value: unknown): string {
  const url =
    value instanceof URL ? value : typeof value === 'string' && URL.canParse(value) && new URL(value)
  if (url && url.protocol === 'file:') return url.href
  throw invalid(
    'run',
    value instanceof URL ? value.href : value,
    "a function, or the file URL of a module such as new URL('./x.job.js', import.meta.url)",
  )
}

/** Takes the place of the function in a definition whose handler is a module: it is loaded where it runs. */
export function notHere(name: string): () => never {
  return () => {
    throw new MillraceError(
      'INVALID_OPTION',
      `the handler of job '${name}' is a module and has no function here; run it with a worker or runJob`,
      { field: 'run' },
    )
  }
}
