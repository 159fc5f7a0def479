/** A MemoryStore, and several RedisStores of one prefix that are to be like it. */
import assert from 'node:assert/strict'
import { MemoryStore } from 'millrace/memory'
import { RedisStore } from 'millrace/redis'
import type { LinkRecord } from '../../../src/core/family.js'
import type { Store } from '../../../src/core/store.js'
import { linksOf } from '../../../src/testing/conformance/family-jobs.js'
import { plain } from '../../../src/testing/conformance/helpers.js'
import { checkCounts, checkLists, look, shown } from '../../../src/testing/conformance/lockstep-view.js'
import { VirtualClock } from '../../../src/testing/virtual-clock.js'
import type { Random } from '../../chaos/random.js'
import { freshPrefix, serverUrl } from '../redis.js'

/** What a thing is to the MemoryStore and to the RedisStores. */
export type Twice<T> = readonly [memory: T, redis: T]

export class Pair {
  readonly #clock = new VirtualClock()
  readonly #memory = new MemoryStore({ clock: this.#clock })
  readonly #makeProcess: () => Store
  readonly #processes: Store[]
  readonly #random: Random
  readonly #steps: string[]

  /** `steps`: where it tells what is done. */
  constructor(random: Random, steps: string[]) {
    const options = { url: serverUrl(), prefix: freshPrefix(), warn: false, clock: this.#clock }
    this.#makeProcess = () => new RedisStore(options)
    this.#processes = [0, 1, 2].map(this.#makeProcess)
    this.#random = random
    this.#steps = steps
  }

  async open(): Promise<void> {
    for (const store of [this.#memory, ...this.#processes]) await store.open()
  }

  async close(): Promise<void> {
    for (const store of [this.#memory, ...this.#processes]) await store.close()
  }

  /** One process is another, which knows nothing of what happened before, and so tries again what has failed. */
  async beginAnew(): Promise<void> {
    this.#steps.push('a process begins anew')
    const [oldest] = this.#processes.splice(0, 1)
    await oldest?.close()
    const store = this.#makeProcess()
    await store.open()
    this.#processes.push(store)
  }

  advance(ms: number): void {
    this.#steps.push(`${ms} ms pass`)
    this.#clock.jump(ms)
  }

  /** In any of the processes. `seen`: what has to be the same in the answers. */
  async both<T>(
    what: string,
    call: (store: Store, which: 0 | 1) => Promise<T>,
    seen: (answer: T) => unknown = (answer) => answer,
  ): Promise<Twice<T>> {
    this.#steps.push(what)
    const expected = await call(this.#memory, 0)
    const answer = await call(this.#anyProcess(), 1)
    assert.deepEqual(seen(answer), seen(expected), what)
    return [expected, answer]
  }

  async compare(ids: readonly string[], parents: readonly string[]): Promise<void> {
    const store = this.#anyProcess()
    const view = await look(store, ids)
    assert.deepEqual(shown(view), shown(await look(this.#memory, ids)), 'what they show')
    checkCounts(view)
    const links = await linksOf(store, { parents })
    assert.deepEqual(links.map(shownLink), (await linksOf(this.#memory, { parents })).map(shownLink), 'links')
  }

  async compareLists(ids: readonly string[]): Promise<void> {
    const store = this.#anyProcess()
    await checkLists(store, await look(store, ids))
  }

  #anyProcess(): Store {
    return this.#random.pick(this.#processes)
  }
}

/** Whether a field is undefined or absent is all the same. */
function shownLink({ failure, ...link }: LinkRecord): unknown {
  return JSON.parse(JSON.stringify({ ...link, failure: plain(failure) }))
}
