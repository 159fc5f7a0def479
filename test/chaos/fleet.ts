/** The child processes of one run: started, watched, and all gone at the end, however it ends. */
import { type ChildProcess, fork } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly t: number
}

export class Member {
  readonly name: string
  readonly exit: Promise<Exit>
  /** The worker's id, once it has started; rejects when the process ends before. */
  readonly ready: Promise<string>
  readonly #process: ChildProcess
  readonly #output: string
  /** Its death is part of the plan. */
  doomed: boolean
  #signalled = false
  ended: Exit | undefined
  lastHeardAt = Date.now()

  constructor(name: string, process: ChildProcess, doomed: boolean, output: string) {
    this.name = name
    this.#output = output
    this.#process = process
    this.doomed = doomed
    this.exit = new Promise((resolve) => {
      process.once('exit', (code, signal) => {
        this.ended = { code, signal, t: Date.now() }
        resolve(this.ended)
      })
    })
    this.ready = new Promise((resolve, reject) => {
      process.on('message', (message) => {
        this.lastHeardAt = Date.now()
        if ('worker' in (message as object)) resolve((message as { worker: string }).worker)
      })
      void this.exit.then(() => reject(new Error(`before it was ready, ${this.obituary()}`)))
    })
    this.ready.catch(() => {}) // whoever waits for it sees it
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  /** Somebody means this process to die; if not, its death is a crash of the product. */
  get mayDie(): boolean {
    return this.doomed || this.#signalled
  }

  /** Returns the time of the signal. */
  signal(signal: NodeJS.Signals): number {
    if (signal === 'SIGKILL' || signal === 'SIGTERM') this.#signalled = true
    const t = Date.now()
    this.#process.kill(signal)
    return t
  }

  /** How it ended, and its last words. */
  obituary(): string {
    const words = readFileSync(this.#output, 'utf8').trim().slice(0, 1500)
    return `${this.name} ended (${this.ended?.code ?? this.ended?.signal}): ${words}`
  }
}

export class Fleet {
  readonly #folder: string
  readonly #members = new Set<Member>()
  /** Processes that ended although nobody meant them to. */
  readonly crashes: string[] = []
  #count = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  /** `script` is a file of this folder, or below it. `doomed`: its death is part of the plan. */
  start(
    script: string,
    config: (name: string) => object,
    options: { doomed?: boolean; execArgv?: string[] } = {},
  ): Member {
    const name = `${basename(script).replace('-process', '')}-${++this.#count}`
    const outputFile = join(this.#folder, `${name}.out`)
    const output = openSync(outputFile, 'a')
    const child = fork(
      fileURLToPath(new URL(`./${script}.js`, import.meta.url)),
      [JSON.stringify(config(name))],
      { stdio: ['ignore', output, output, 'ipc'], execArgv: options.execArgv ?? [] },
    )
    closeSync(output)
    const member = new Member(name, child, options.doomed ?? false, outputFile)
    this.#members.add(member)
    void member.exit.then((exit) => {
      this.#members.delete(member)
      if (!member.mayDie && exit.code !== 0) this.crashes.push(`by itself, ${member.obituary()}`)
    })
    return member
  }

  get members(): readonly Member[] {
    return [...this.#members]
  }

  /** The end of the run: no process survives it. */
  async killAll(): Promise<void> {
    for (const member of this.#members) {
      member.signal('SIGCONT')
      member.signal('SIGKILL')
    }
    await Promise.all([...this.#members].map((member) => member.exit))
  }
}
