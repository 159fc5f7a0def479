import type { Store } from 'millrace'
import type { RedisCluster } from '../servers/redis-cluster.js'
import type { Hog } from './hog.js'

/** Where the jobs of one run are; plain data, so that it can be handed to a child process. */
export type Place = SqlitePlace | PostgresPlace | RedisPlace

export interface SqlitePlace {
  readonly engine: 'sqlite'
  readonly file: string
}

export interface PostgresPlace {
  readonly engine: 'postgres'
  readonly url: string
  readonly schema: string
  /** The store uses a pool of its process, and so does somebody who takes all of its connections. */
  readonly hog?: Hog
}

export interface RedisPlace {
  readonly engine: 'redis' | 'redis-cluster'
  readonly url: string
  readonly prefix: string
  /** So many replicas must have a write before it is acknowledged. */
  readonly wait?: number
  /** Where the nodes of a cluster are reached, by 'host:port'; elsewhere, when not given. */
  readonly nodes?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
}

/** What all runs on one engine share. */
export interface Ground {
  /** A fresh one, where there are no jobs yet. */
  place(folder: string): Place
  /** Ours to kill. */
  readonly server?: ChaosServer
  readonly cluster?: RedisCluster
  close(): Promise<void>
}

export interface ChaosServer {
  /** SIGKILL. */
  kill(): Promise<void>
  /** Again, on the same data. */
  start(): Promise<void>
}

export interface Engine<P extends Place> {
  /** `settings` of its server, where it has one. */
  prepare(settings: Readonly<Record<string, string>>): Promise<Ground>
  store(place: P): Store
  /** 'ok', or what is damaged. */
  integrity(place: P): Promise<string>
  /** Whether somebody else can write now, or will soon although the process that stands in the way is stopped. */
  writable(place: P): boolean
  /** How long it takes at most, more or less, to open a fresh place. */
  readonly openMs: number
}
