// Compares the public API of each entry point with api/<entry>.api.md; --update accepts the present API.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor'

const update = process.argv.includes('--update')
const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
mkdirSync('api', { recursive: true })

for (const [subpath, target] of Object.entries(exports)) {
  if (target.types) report(subpath === '.' ? 'index' : subpath.slice(2).replaceAll('/', '-'), target.types)
}

function report(entry, types) {
  const config = ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: resolve('package.json'),
    configObject: {
      projectFolder: process.cwd(),
      mainEntryPointFilePath: resolve(types),
      compiler: { tsconfigFilePath: resolve('tsconfig.src.json') },
      apiReport: {
        enabled: true,
        reportFileName: `${entry}.api.md`,
        reportFolder: resolve('api'),
        reportTempFolder: resolve('.build/api'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
      messages: {
        compilerMessageReporting: { default: { logLevel: 'error' } },
        extractorMessageReporting: {
          default: { logLevel: 'warning', addToApiReportFile: true },
          'ae-missing-release-tag': { logLevel: 'none' },
          'ae-undocumented': { logLevel: 'none' },
        },
        tsdocMessageReporting: { default: { logLevel: 'none' } },
      },
    },
  })
  const { succeeded, apiReportChanged } = Extractor.invoke(config, {
    localBuild: update,
    messageCallback: filter,
  })
  if (apiReportChanged) explain(`${entry}.api.md`)
  if (!succeeded || (apiReportChanged && !update)) process.exitCode = 1
}

/** Keeps the console to real problems: progress, and the advice to copy files by hand, are noise here. */
function filter(message) {
  if (message.category === 'console' && message.logLevel !== 'error') message.logLevel = 'none'
}

function explain(file) {
  if (update) return console.log(`wrote api/${file}`)
  console.error(
    `The public API differs from api/${file}. If that is meant: node scripts/api-report.mjs --update`,
  )
  const diff = spawnSync('git', ['diff', '--no-index', '--no-color', `api/${file}`, `.build/api/${file}`])
  console.error(diff.stdout?.toString())
}
