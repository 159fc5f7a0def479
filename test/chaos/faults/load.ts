import type { Work } from '../jobs.js'
import type { Random } from '../random.js'

/** A bit of everything: quick, slow, failing at first, dying for good, and adding jobs of their own. */
export function mixedWork(random: Random): Work {
  const luck = random.next()
  if (luck < 0.4) return {}
  if (luck < 0.75) return { sleep: random.integer(1, 15) }
  if (luck < 0.85) return { fails: 1 }
  if (luck < 0.9) return { doomed: true }
  return { child: true, sleep: random.integer(0, 5) }
}

export function slowWork(random: Random): Work {
  return { sleep: random.integer(150, 350) }
}
