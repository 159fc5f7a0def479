import { once } from 'node:events'
import { setImmediate as nextImmediate } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { defineHandler, defineJob, fromModule, isMillraceError, MillraceError, RetryAfter } from 'millrace'
import { expect, test, vi } from 'vitest'
import { awaitHearing } from '../../src/worker/sandbox/hearing.js'
import { inheritedArguments, inheritedEnvironment } from '../../src/worker/sandbox/inherit.js'
import { pack, unpack } from '../../src/worker/sandbox/thrown.js'

const url = new URL('./some.job.js', import.meta.url)
const over = (thrown: unknown) => unpack(JSON.parse(JSON.stringify(pack(thrown))))

test('a handler is a function or the file URL of a module', () => {
  const sandbox = { url: url.href, export: 'default', type: 'process', memory: 512, use: 'always' }
  expect(defineJob({ name: 'a', run: url }).sandbox).toEqual(sandbox)
  expect(defineJob({ name: 'a', run: url.href }).sandbox).toEqual(sandbox)
  expect(defineJob({ name: 'a', run: () => 1 }).sandbox).toBeUndefined()
  const other = defineJob({
    name: 'a',
    run: fromModule<{ b: () => number }, 'b'>(url, 'b'),
    sandbox: { type: 'thread', memory: 64 },
  })
  expect(other.sandbox).toEqual({ ...sandbox, export: 'b', type: 'thread', memory: 64 })
  expect(() => other.run(undefined as never, {} as never)).toThrow("the handler of job 'a' is a module")
  expect(() => defineHandler(7 as never)).toThrow('handler is 7; expected a function')
})

test.for([
  [
    { run: new URL('https://example.com/a.js') },
    'run is "https://example.com/a.js"; expected a function, or',
  ],
  [{ run: './a.job.js' }, 'run is "./a.job.js"'],
  [{ run: undefined }, 'run is undefined'],
  [{ run: {} }, 'run is an object'],
  [{ run: () => 1, sandbox: {} }, 'sandbox is an object; expected a handler in a module of its own'],
  [{ run: url, sandbox: { type: 'vm' } }, 'sandbox.type is "vm"; expected one of thread, process'],
  [{ run: url, sandbox: { memory: 8 } }, 'sandbox.memory is 8; expected a whole number from 16'],
  [{ run: url, sandbox: { use: 'never' } }, 'sandbox.use is "never"'],
  [{ run: url, sandbox: { use: 'suspects', type: 'thread' } }, "expected 'process' for suspects"],
  [{ run: url, sandbox: { memry: 64 } }, "did you mean 'memory'?"],
] as const)('%o is refused', ([options, message]) => {
  const define = () => defineJob({ name: 'a', ...options } as never)
  expect(define).toThrow(message)
  expect(define).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

test('what is thrown crosses with its meaning', () => {
  const cause = new Error('deeper')
  const thrown = Object.assign(new RangeError('outside', { cause }), { status: 404, code: 'E_OUT', self: {} })
  const error = over(thrown) as RangeError & { status: number }
  expect(error).toBeInstanceOf(RangeError)
  expect(error).toMatchObject({ message: 'outside', status: 404, code: 'E_OUT', stack: thrown.stack })
  expect(error.cause).toMatchObject({ message: 'deeper', stack: cause.stack })
  expect(Object.keys(error)).toEqual(['status'])

  const own = over(new MillraceError('INVALID_INPUT', 'no', { field: '$.a', limit: 7 }))
  expect(isMillraceError(own, 'INVALID_INPUT')).toBe(true)
  expect(own).toMatchObject({ field: '$.a', limit: 7 })
  expect(over(new RetryAfter('5m'))).toMatchObject({ code: 'RETRY_AFTER', name: 'RetryAfter', delay: '5m' })
  expect(over(new DOMException('stop', 'AbortError'))).toMatchObject({ name: 'AbortError', message: 'stop' })
})

test('what is thrown may be anything, of any size', () => {
  expect(over('text')).toBe('text')
  expect(over(null)).toBe(null)
  expect(over(undefined)).toBe('undefined')
  expect(over({ a: [1n] })).toEqual({ a: [1n] })
  expect(over(Symbol('s'))).toBe('Symbol(s)')
  expect(over(new (class Strange {})())).toBe('[object Object]')
  const circular = new Error('round')
  circular.cause = circular
  expect(over(circular)).toMatchObject({ message: 'round' })
  const huge = Object.assign(new Error('x'.repeat(1e6)), { more: 'y'.repeat(1e6) })
  expect(JSON.stringify(pack(huge)).length).toBeLessThan(50_000)
})

test('a child that does not hear is deaf', async () => {
  await new Promise<void>((resolve) => awaitHearing(resolve))
})

test('a child whose answer its worker was too busy to read is not deaf', async () => {
  const { port1: child, port2: worker } = new MessageChannel()
  const deaf = vi.fn()
  const answer = once(worker, 'message')
  // From here, timers come before messages.
  await nextImmediate()
  const heard = awaitHearing(deaf)
  worker.once('message', heard)
  child.postMessage('heard')
  const until = performance.now() + 600
  while (performance.now() < until);
  await answer
  await nextImmediate()
  expect(deaf).not.toHaveBeenCalled()
  worker.close()
})

test('a process takes over loaders, not the inspector, a script or a heap size', () => {
  expect(
    inheritedArguments([
      '--import',
      'tsx',
      '--inspect=9229',
      '--inspect-brk',
      '--inspect-port',
      '0',
      '--conditions=dev',
      '--max_old_space_size=100',
      '-e',
      'code()',
      '--watch',
    ]),
  ).toEqual(['--import', 'tsx', '--conditions=dev'])
  const env = { A: 'b', NODE_OPTIONS: '--inspect=0 --require x.js --inspect-port 7 --max-old-space-size=9' }
  expect(inheritedEnvironment(env)).toEqual({
    A: 'b',
    NODE_OPTIONS: expect.stringMatching(/^\s*--require x.js\s*$/),
  })
  expect(inheritedEnvironment({ A: 'b' })).toEqual({ A: 'b' })
})
