import {
  claims,
  common,
  ends,
  exchange,
  giving,
  insert,
  jobs,
  joining,
  limits,
  listen,
  lists,
  look,
  moved,
  peek,
  renew,
  retract,
  write,
  writeJobs,
  writeLimits,
} from './lua.generated.js'
import { withParts } from './lua-parts.js'
import { makeScript, type Script } from './script.js'

/** What runs in the server. */
export const scripts = {
  insert: script('insert', [joining, giving, insert].join('\n\n')),
  exchange: script('exchange', [ends, claims, exchange].join('\n\n')),
  listen: script('listen', listen),
  look: script('look', look),
  moved: script('moved', moved),
  peek: script('peek', peek),
  renew: script('renew', renew),
  retract: script('retract', retract),
  write: script('write', [writeLimits, writeJobs, write].join('\n\n')),
}

function script(name: string, text: string): Script {
  return makeScript(name, withParts([common, limits, jobs, lists].join('\n\n'), text))
}
