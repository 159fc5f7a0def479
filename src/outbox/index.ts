export { Aside, type AsideList } from './aside.js'
export { Inbox, type InboxOptions, type Once } from './inbox.js'
export type { Message } from './message.js'
export type { OutboxOptions, RelayPolicy } from './options.js'
export {
  type NewMessage,
  Outbox,
  type OutboxJobOptions,
  type PublishOptions,
  type RelayOptions,
} from './outbox.js'
export type { Publisher, PublishResult } from './publisher.js'
export {
  type KafkaBatch,
  type KafkaClient,
  type KafkaMessage,
  type KafkaProducer,
  type KafkaPublisherOptions,
  kafkaPublisher,
} from './publishers/kafka.js'
export { type NatsPublisherOptions, natsPublisher } from './publishers/nats.js'
export { type RabbitPublisherOptions, rabbitPublisher } from './publishers/rabbitmq.js'
export { Relay, type RelayEvents } from './relay.js'
export type {
  AsideRow,
  Claim,
  ClaimRequest,
  Kind,
  NewRow,
  OutboxFigures,
  OutboxStore,
  Row,
  Verdict,
} from './store.js'
export { type PostgresOutbox, postgresOutbox } from './stores/postgres/index.js'
export { type SqliteOutbox, sqliteOutbox } from './stores/sqlite/index.js'
export type { JobTarget } from './target.js'
