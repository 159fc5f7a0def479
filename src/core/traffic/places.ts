/** What traffic control knows of jobs and lines, and what it asks of the engine that keeps them. */

import type { Gate } from './gate.js'
import type { GateRef, JobTraffic } from './settings.js'
import type { TurnOwner } from './turns.js'

/** What traffic control needs to know of a job. */
export interface TrafficSubject {
  readonly name: string
  readonly queue: string
  readonly lane: number
  readonly traffic: JobTraffic | undefined
}

export interface Waiting<G extends Gate = Gate> {
  readonly job: TrafficSubject
  /** Its turn. */
  rank: number
  /** Remembered here while it waits. */
  gates?: readonly G[] | undefined
}

export interface Line extends TurnOwner {
  readonly num: number
  readonly queue: string
  readonly lane: number
  /** The definition whose limits it waits for; empty for jobs that only have groups. */
  readonly name: string
  /** The tag that was handed out last. */
  served: number
  /** No job stands in it. */
  readonly isEmpty: boolean
}

export interface DuePlace {
  readonly dueAt: number
  readonly num: number
}

/** The gates that an engine keeps, all of it inside the step that is being carried out. */
export interface GateStore<G extends Gate> {
  /** Calls `forget` if others may have changed what is remembered here. */
  refresh(): void
  findGate(ref: GateRef): G | undefined
  /** Makes it on first use. */
  gate(ref: GateRef): G
  /** Its state changed. */
  keepGate(gate: G): void
  forgetGate(gate: G): void
  /** Gates whose `dueAt` has come, the earliest first. */
  dueGates(now: number, limit: number): G[]
  /** Gates behind a place in the order of their `dueAt`, then of their numbers. */
  dueLater(after: DuePlace, limit: number): G[]
  /** Gates whose `idleAt` has come. */
  idleGates(now: number, limit: number): G[]
  /** Those that have settings, or were closed from outside. */
  activeGates(of: 'queue' | 'job'): G[]
  /** Jobs of a queue or a definition that run now. */
  running(ref: GateRef): number
}

/** What an engine keeps: jobs in their lines and behind gates, and the gates. */
export interface TrafficPlaces<J extends Waiting<G>, L extends Line, G extends Gate> extends GateStore<G> {
  line(queue: string, lane: number, name: string): L
  keepLine(line: L): void
  /** Takes the first jobs out of a line. */
  takeHeads(line: L, count: number): J[]
  stand(job: J, line: L): void
  /** Its rank is the number of the line that it belongs in. */
  park(job: J, gate: G): void
  /** Of those that belong in a line, takes the one that has waited longest out from behind the gate. */
  unpark(gate: G, line: number): J | undefined
  /** Takes a job out of wherever it waits; tells its line, and the gate that it was parked behind if it was. */
  remove(job: J): { readonly line: number; readonly behind: G | undefined }
  /** Groups of a queue, or keys of a definition, that have parked jobs: they are due now, however many. */
  lookAgainUnder(ref: GateRef, now: number): void
  /** From now on the queues that have such jobs know that traffic control concerns them. */
  concern(ref: GateRef): void
  /** A permit came back: jobs of the same queue, and of the same definition in other queues, may start. */
  ready(job: TrafficSubject): void
  breakerChanged(job: string, gate: G): void
  quarantined(job: string, on: boolean): void
}
