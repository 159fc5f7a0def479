/**
 * What a process in a sandbox takes over from its worker: loaders, conditions and permissions, so that it
 * understands the same modules. Not what belongs to one process only: the inspector with its port, a script
 * given on the command line, a watch mode, the size of the heap.
 */
const ownOnly = /^--(inspect|debug-port|max-old-space-size|watch|test|cpu-prof|heap-prof)/
/** Of these, the next argument is the value. */
const withValue = new Set([
  '--inspect-port',
  '--debug-port',
  '--watch-path',
  '--eval',
  '-e',
  '--print',
  '-p',
  '-pe',
])

export function inheritedArguments(execArgv: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < execArgv.length; i++) {
    const argument = execArgv[i] as string
    if (withValue.has(argument)) i++
    else if (!ownOnly.test(argument.replaceAll('_', '-'))) kept.push(argument)
  }
  return kept
}

export function inheritedEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: options } = env
  if (options === undefined) return env
  return {
    ...env,
    NODE_OPTIONS: options.replace(/(^|\s)--(inspect-port \S+|(inspect|max[-_]old)\S*)/g, '$1'),
  }
}
