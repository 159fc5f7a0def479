/** The handler of the jobs in sandboxes. */
import { defineHandler } from 'millrace'
import { type PoisonKind, poisons } from './jobs.js'

export default defineHandler(async ({ how }: { how: PoisonKind }) => {
  await poisons[how]()
})
