/** The caller's own database: orders, and a number for each key that transactions count up. */
import type { OutboxStore } from 'millrace/outbox'
import type { PostgresPlace, SqlitePlace } from '../place.js'
import type { Order } from './orders.js'

export type BusinessPlace = SqlitePlace | PostgresPlace

export interface Business {
  /** Of the outbox beside the orders. */
  store(): OutboxStore
  /** Makes the tables. */
  setUp(): Promise<void>
  begin(): Promise<BusinessTransaction>
  orders(): Promise<Order[]>
  close(): Promise<void>
}

export interface BusinessTransaction {
  /** Of the driver. */
  readonly tx: unknown
  /** Writes an order, with the next number of its key. */
  order(id: string, key: string | undefined): Promise<Order>
  /** Undoes what `work` did in it, and nothing before. */
  undone(work: () => Promise<void>): Promise<void>
  commit(): Promise<void>
  /** Also when something went wrong. */
  rollback(): Promise<void>
}
