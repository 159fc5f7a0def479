import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'

/** Writes a generated file; with --check on the command line, only says whether it is out of date. */
export function writeGenerated(path, content) {
  if (existsSync(path) && readFileSync(path, 'utf8') === content) return
  if (process.argv.includes('--check')) {
    console.error(`${path} is out of date. Run: node ${relative('.', process.argv[1])}`)
    process.exitCode = 1
    return
  }
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
  console.log(`wrote ${path}`)
}
