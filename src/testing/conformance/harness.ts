import type { Store } from '../../core/store.js'

/** A store under test, open and empty, whose clock stands still unless it is told to move. */
export interface StoreHarness {
  readonly store: Store
  /** Moves the store's clock. */
  advance(ms: number): Promise<void> | void
  /** Sets the store's clock forward or back while no time passes, for engines whose clock the harness owns. */
  jump?: (ms: number) => void
  /** A second handle on the same data, open, for engines that share it; closed by the harness. */
  second?: () => Promise<Store>
  /** Calls that are made at once may be carried out in another order, as over several connections. */
  readonly overtakes?: boolean
  /** Each call takes a message to a server: what needs thousands of them does with fewer. */
  readonly isRemote?: boolean
  close(): Promise<void>
}

/** What the suite needs of a test runner: vitest's own functions fit, node:test's need one line. */
export interface Runner {
  describe(name: string, fn: () => void): void
  test(name: string, fn: () => Promise<void> | void, timeout?: number): void
}
