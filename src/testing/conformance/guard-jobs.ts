import assert from 'node:assert/strict'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import type { NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'

export const day = 86_400_000

export function guarded(key = 'k', retain = day): Partial<NewJob> {
  return { guard: { key, retain } }
}

export function as<T>(value: T | undefined): T {
  assert.ok(value)
  return value
}

type Word = GuardRequest extends infer R ? (R extends GuardRequest ? Omit<R, 'key'> : never) : never

export function ask(store: Store, word: Word, key = 'k'): Promise<GuardResult> {
  return store.guard({ ...word, key } as GuardRequest)
}

export function begin(store: Store, holder = 'a', lease = 10_000): Promise<GuardResult> {
  return ask(store, { do: 'begin', holder, lease })
}

/** What a stranger finds under the key. One that finds it free lets go at once. */
export async function foundBy(store: Store, key = 'k'): Promise<GuardResult> {
  const found = await ask(store, { do: 'begin', holder: 'stranger', lease: 1_000 }, key)
  if (found.status === 'begun') await ask(store, { do: 'fail', holder: 'stranger' }, key)
  return found
}
