/** A script gets what it uses of what all have in common, and what that uses, and nothing else. */
import { expect, test } from 'vitest'
import { withParts } from '../../src/stores/redis/lua-parts.js'

const common = `
-- What all scripts begin with.
local root = KEYS[1]

-- The server is empty.
if not root then return end

-- Names a key, for whoever has to count.
local function named(name)
  return root .. ':' .. name
end

local long = string.rep(' ', 65)

-- Unlike count, it says nothing of send.
local function asTable(name)
  return named(name) .. long
end

local function count(field)
  -- See send.
  return named(field)
end

local function send(word)
  return word
end
`
const head = 'local root = KEYS[1]\n\nif not root then return end'
const parts = {
  named: "local function named(name)\n  return root .. ':' .. name\nend",
  long: "local long = string.rep(' ', 65)",
  asTable: 'local function asTable(name)\n  return named(name) .. long\nend',
  count: 'local function count(field)\n  return named(field)\nend',
  send: 'local function send(word)\n  return word\nend',
}

test.each<[what: string, script: string, gets: (keyof typeof parts)[], code?: string]>([
  ['nothing', 'return 1', []],
  ['one', 'return send(1)', ['send']],
  ['what a part uses, before it', 'return asTable(1)', ['named', 'long', 'asTable']],
  [
    'each once, as they stand',
    'return send(count(asTable(1)))',
    ['named', 'long', 'asTable', 'count', 'send'],
  ],
  ['nothing for a comment', '-- We send and count.\nreturn 1', [], 'return 1'],
  ['nothing for a string', "return 'send'", []],
  ['nothing for a field', 'return deeds.send(1)', []],
  ['nothing for a longer name', 'return sender(counted)', []],
  ['what is joined to a text', "return 'a'..send('b')", ['send']],
])('%s', (_, script, gets, code = script) => {
  expect(withParts(common, script)).toBe([head, ...gets.map((name) => parts[name]), code].join('\n\n'))
})
