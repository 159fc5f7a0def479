import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const built = fileURLToPath(new URL('../../.build/examples/', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** The compiled file of an example; `npm test` has built it. */
export function exampleFile(name: string): string {
  const file = join(built, `${name}.js`)
  if (!existsSync(file)) throw new Error(`${file} is missing; run "npm run build" first`)
  return file
}

export function startExample(name: string, args: readonly string[] = [], env: Env = {}): Running {
  return new Running(process.execPath, [exampleFile(name), ...args], env)
}

export function runExample(name: string, args: readonly string[] = [], env: Env = {}): Promise<Ended> {
  return startExample(name, args, env).ended
}

type Env = Readonly<Record<string, string>>

/** A process whose output can be waited for. It does not outlive its test. */
export class Running {
  readonly ended: Promise<Ended>
  readonly #child: ChildProcess
  #stdout = ''
  #stderr = ''
  #look = () => {}

  constructor(command: string, args: readonly string[], more: Env = {}) {
    const env = { ...process.env, NO_COLOR: '', TERM: 'xterm', ...more }
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      this.#look()
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', (code, signal) => {
        this.#look()
        resolve({ code, signal, stdout: this.#stdout, stderr: this.#stderr })
      })
    })
    onTestFinished(() => {
      this.#child.kill('SIGKILL')
    })
  }

  /** Resolves when stdout matches; rejects when the process ends without it. */
  async until(pattern: RegExp): Promise<void> {
    const seen = new Promise<'seen'>((resolve) => {
      this.#look = () => {
        if (pattern.test(this.#stdout)) resolve('seen')
      }
      this.#look()
    })
    const first = await Promise.race([seen, this.ended])
    if (first !== 'seen' && !pattern.test(first.stdout)) {
      throw new Error(`ended without ${pattern}:\n${first.stdout}\n${first.stderr}`)
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  type(text: string): void {
    this.#child.stdin?.write(text)
  }
}

/** A folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-examples-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}
