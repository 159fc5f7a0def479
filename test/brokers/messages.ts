import { randomUUID } from 'node:crypto'
import type { Message } from '../../src/outbox/message.js'
import type { Publisher, PublishResult } from '../../src/outbox/publisher.js'

export function message(topic: string, more: Partial<Message> = {}): Message {
  return {
    id: randomUUID(),
    topic,
    key: undefined,
    body: '{"n":1}',
    headers: {},
    at: 1_700_000_000_000,
    ...more,
  }
}

export function messages(
  topic: string,
  count: number,
  more: (n: number) => Partial<Message> = () => ({}),
): Message[] {
  return Array.from({ length: count }, (_, n) => message(topic, { body: `{"n":${n}}`, ...more(n) }))
}

/** Nobody stops waiting. */
const patient: AbortSignal = new AbortController().signal

export function publish(publisher: Publisher, batch: readonly Message[]): Promise<readonly PublishResult[]> {
  return publisher.publish(batch, patient)
}

/** As a relay does when it has got an error: whether the first try finds the connection lost is a matter of time. */
export async function again(
  publisher: Publisher,
  batch: readonly Message[],
): Promise<readonly PublishResult[]> {
  try {
    return await publish(publisher, batch)
  } catch {
    return publish(publisher, batch)
  }
}

/** 'published', or the status with the code of its error. */
export function short(result: PublishResult | undefined): string | undefined {
  if (result === undefined || result === 'published') return result
  return `${result.status} ${(result.error as { code?: string }).code ?? result.error}`
}

export function reason(result: PublishResult | undefined): string {
  return typeof result === 'object' ? (result.error as Error).message : String(result)
}

export async function errorOf(work: Promise<unknown>): Promise<Error & { code?: string }> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('there was no error')
}

/** All that an error says, with its causes: nothing of it may be a password. */
export function everything(error: unknown): string {
  const parts: string[] = []
  for (let e: unknown = error; e instanceof Error; e = e.cause) parts.push(e.stack ?? '', JSON.stringify(e))
  return parts.join('\n')
}
