/** One process of a server: started until it is ready, ended until it is gone. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { User } from './user.js'

export interface DaemonOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly user: User | undefined
  /** Where its output goes; the end of it is shown when it does not start. */
  readonly log: string
  readonly ready: (pid: number) => boolean | Promise<boolean>
}

export class Daemon {
  readonly #options: DaemonOptions
  #process: ChildProcess | undefined
  #exit: Promise<void> = Promise.resolve()

  constructor(options: DaemonOptions) {
    this.#options = options
  }

  get running(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
  }

  get pid(): number {
    return this.#process?.pid ?? 0
  }

  async start(): Promise<void> {
    if (this.running) return
    this.#spawn()
    const deadline = Date.now() + startMs
    while (!(await this.#options.ready(this.pid))) {
      if (!this.running) throw this.#failure('ended at once')
      if (Date.now() > deadline) throw this.#failure(`was not ready after ${startMs / 1000} s`)
      await sleep(10)
    }
  }

  /** As a crash of the machine's process: nobody is asked, no child is told. */
  async kill(): Promise<void> {
    if (!this.running) return
    this.#process?.ref()
    this.#process?.kill('SIGSTOP') // else it could have one more child than we see
    const children = processes()
      .filter(({ parent }) => parent === this.pid)
      .map(({ pid }) => pid)
    this.#process?.kill('SIGKILL')
    await this.#exit
    await gone(children)
  }

  /** Sends one signal after the other until it ends. */
  async stop(...signals: NodeJS.Signals[]): Promise<void> {
    this.#process?.ref()
    for (const signal of signals) {
      if (!this.running) return
      this.#process?.kill(signal)
      await Promise.race([this.#exit, sleep(patienceMs, undefined, { ref: false })])
    }
    await this.kill()
  }

  #spawn(): void {
    const { command, args, user, log } = this.#options
    const output = openSync(log, 'a')
    this.#process = spawn(command, args, { ...user, stdio: ['ignore', output, output], cwd: '/' })
    closeSync(output)
    const child = this.#process
    this.#exit = new Promise((resolve) => {
      child.once('exit', () => resolve())
      child.once('error', () => {
        this.#process = undefined
        resolve()
      })
    })
    child.unref()
  }

  #failure(what: string): Error {
    const { command, log } = this.#options
    const tail = existsSync(log) ? readFileSync(log, 'utf8').trimEnd().split('\n').slice(-20).join('\n') : ''
    return new Error(`${command} ${what}:\n${tail}`)
  }
}

const startMs = 60_000
const patienceMs = 5_000

/** A child notices by itself that its parent is gone, unless it is in the middle of something. */
async function gone(children: readonly number[]): Promise<void> {
  const deadline = Date.now() + 1_000
  for (;;) {
    const left = processes().filter(({ pid, zombie }) => children.includes(pid) && !zombie)
    if (left.length === 0) return
    if (Date.now() > deadline) for (const { pid } of left) end(pid)
    await sleep(5)
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It was quicker.
  }
}

function processes(): { pid: number; parent: number; zombie: boolean }[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' }).trim().split('\n')
  return lines.map((line) => {
    const [pid, parent, state] = line.trim().split(/\s+/)
    return { pid: Number(pid), parent: Number(parent), zombie: state?.startsWith('Z') === true }
  })
}
