/** Writes checkpoints over a connection of its own and is killed in the middle of one. */
import Database from 'better-sqlite3'
import { hireAssassin } from './assassin.js'
import { beChild } from './child.js'
import { sqliteFile } from './engine.js'
import { Random } from './random.js'

const config = beChild()
const random = new Random(config.seed)
const kill = await hireAssassin()
const db = new Database(sqliteFile(config.place))
const modes = ['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE']

for (let i = 0; i < 3; i++) {
  await new Promise((resolve) => setTimeout(resolve, 20))
  db.pragma(`wal_checkpoint(${random.pick(modes)})`)
}
await new Promise((resolve) => setTimeout(resolve, random.between(0, 50)))
kill(random.between(0, 4))
for (;;) db.pragma(`wal_checkpoint(${random.pick(modes)})`)
