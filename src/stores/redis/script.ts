import { createHash } from 'node:crypto'

export interface Script {
  readonly name: string
  readonly text: string
  /** The name that the server knows it by. It changes with the text, so that two versions of us never mix them up. */
  readonly sha: string
}

export function makeScript(name: string, text: string): Script {
  return { name, text, sha: createHash('sha1').update(text).digest('hex') }
}
