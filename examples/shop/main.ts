// What `npm start` runs. Begin reading at jobs.ts: the work; workload.ts: how it is enqueued; shop.ts: who does it.
import { isMillraceError } from 'millrace'
import { runLive } from './live.js'
import { runOnce } from './once.js'
import { readOptions, type ShopOptions, usage } from './options.js'

process.exitCode = await main(process.argv.slice(2))

async function main(args: readonly string[]): Promise<number> {
  let options: ShopOptions
  try {
    options = readOptions(args)
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\nTry: npm start -- --help`)
    return 2
  }
  if (options.help) {
    console.log(usage)
    return 0
  }
  try {
    return options.once ? await runOnce(options.json) : await runLive(options)
  } catch (error) {
    // A file that cannot be opened or a full disk: the sentence helps, the stack does not.
    if (!isMillraceError(error)) throw error
    console.error(error.message)
    return 1
  }
}
