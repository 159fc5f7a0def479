/**
 * A network between a program and a server that can be made to fail. What a connection loses is lost for good: healing
 * lets new connections through, as a network does whose other end has forgotten the old ones.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Flow } from './proxy-flow.js'

/** In front of the server of a URL. */
export async function startProxy(url: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(url)
  const proxy = new FaultyProxy({ host: hostname, port: Number(port || 5432) })
  await proxy.listen()
  return proxy
}

interface Target {
  readonly host: string
  readonly port: number
}

interface Link {
  readonly client: Socket
  readonly server: Socket
  readonly requests: Flow
  readonly replies: Flow
}

type Fault = 'none' | 'cut' | 'hole' | 'no replies'

export class FaultyProxy {
  readonly #target: Target
  readonly #listener: Server
  readonly #links = new Set<Link>()
  /** Accepted into a black hole: nobody ever answers these. */
  readonly #swallowed = new Set<Socket>()
  #fault: Fault = 'none'
  #delay = { ms: 0, jitter: 0 }
  #bytesPerSecond = Number.POSITIVE_INFINITY
  /** Connections accepted so far. */
  accepted = 0

  constructor(target: Target) {
    this.#target = target
    this.#listener = createServer((client) => this.#accept(client))
  }

  async listen(): Promise<void> {
    this.#listener.listen(0, '127.0.0.1')
    await once(this.#listener, 'listening')
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port
  }

  /** The address of a server, through this proxy. */
  through(url: string): string {
    const changed = new URL(url)
    changed.host = `127.0.0.1:${this.port}`
    return changed.href
  }

  get open(): number {
    return this.#links.size
  }

  /** Resolves with the next connection that comes in. */
  async nextConnection(): Promise<void> {
    await once(this.#listener, 'connection')
  }

  /** All connections are closed, and new ones are until it heals. */
  cut(): void {
    this.#fault = 'cut'
    for (const link of this.#links) this.#destroy(link)
  }

  /** All connections end with a RST; new ones are taken. */
  reset(): void {
    for (const { client, server } of this.#links) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
  }

  /** Half-open: all bytes vanish both ways, and nobody is told. */
  blackHole(): void {
    this.#fault = 'hole'
    for (const { requests, replies } of this.#links) {
      requests.lose()
      replies.lose()
    }
  }

  /** Requests arrive and are carried out; their replies vanish. */
  dropReplies(): void {
    this.#fault = 'no replies'
    for (const { replies } of this.#links) replies.lose()
  }

  /** Each packet is late by `ms`, more or less. */
  delay(ms: number, jitter = 0): void {
    this.#delay = { ms, jitter }
    this.#tune()
  }

  /** So many bytes each second, each way of each connection. */
  slow(bytesPerSecond: number): void {
    this.#bytesPerSecond = bytesPerSecond
    this.#tune()
  }

  heal(): void {
    this.#fault = 'none'
    this.#delay = { ms: 0, jitter: 0 }
    this.#bytesPerSecond = Number.POSITIVE_INFINITY
    this.#tune()
  }

  async close(): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const link of this.#links) this.#destroy(link)
    for (const socket of this.#swallowed) socket.destroy()
    await closed
  }

  #accept(client: Socket): void {
    this.accepted++
    client.on('error', () => {})
    if (this.#fault === 'cut') client.resetAndDestroy()
    else if (this.#fault === 'hole') this.#swallow(client)
    else this.#connect(client)
  }

  #swallow(client: Socket): void {
    this.#swallowed.add(client)
    client.resume().once('close', () => this.#swallowed.delete(client))
  }

  #connect(client: Socket): void {
    const server = connect(this.#target)
    server.on('error', () => {})
    client.setNoDelay(true)
    server.setNoDelay(true)
    const link = { client, server, requests: new Flow(client, server), replies: new Flow(server, client) }
    this.#links.add(link)
    this.#tune()
    if (this.#fault === 'no replies') link.replies.lose()
    const forget = () => client.destroyed && server.destroyed && this.#links.delete(link)
    client.once('close', forget)
    server.once('close', forget)
  }

  #tune(): void {
    for (const { requests, replies } of this.#links) {
      for (const flow of [requests, replies]) flow.tune(this.#delay, this.#bytesPerSecond)
    }
  }

  #destroy({ client, server }: Link): void {
    client.destroy()
    server.destroy()
  }
}
