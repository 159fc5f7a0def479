-- Jobs that are given to idle workers as they are added, for insert.lua.

-- Whether nothing waits in any of these lines. `keys`: others that are not to exist either.
local function areEmpty(lines, keys)
  for _, line in ipairs(lines) do
    keys[#keys + 1] = named('line:' .. line)
    keys[#keys + 1] = named('back:' .. line)
  end
  return not anyExists(keys)
end

-- The claim that one of those who wait has left behind, if that has room for these jobs. It is used once: who takes jobs leaves another
-- one behind when it finds nothing more. `position`: the last one that was given away before these jobs.
local function claimOfOther(group, self, position, now)
  for _, ear in ipairs(call('SRANDMEMBER', named('idle:' .. group.queue), 2)) do
    local offer = ear ~= self and call('HGET', named('offers'), ear)
    local worker, token, lease, room, lines = string.match(offer or '', '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)(\n.*)$')
    local till = worker and call('ZSCORE', named('workers'), worker)
    local isAlive = till and tonumber(till) > now
    if isAlive and tonumber(room) >= group.size and string.find(lines, '\n' .. group.line .. '\n', 1, true) then
      call('HDEL', named('offers'), ear)
      -- The claim itself may be made again, and has a lease of its own then.
      return { worker = worker, token = token .. 'g' .. format('%x', position), lease = lease, ear = ear }
    end
  end
end

local function bytesOf(texts)
  local bytes = 0
  for i = 1, #texts do bytes = bytes + #texts[i] end
  return bytes
end

-- Whose the jobs of the only group are from the beginning, if they are few (see boarding.ts) and nobody was there before them. To others
-- they are sent as a message, which is not to be large.
local function claimFor(group, own, rests, self, position, now)
  if group.isPaused or group.isLimited or group.family or group.size > 20 then return nil end
  -- It may have been made before, and its answer got lost.
  if own.worker ~= '' then return areEmpty(own.lines, { named('l:' .. own.token) }) and own or nil end
  if ARGV[1] ~= '' or bytesOf(rests) > 65536 or not areEmpty({ group.line }, {}) then return nil end
  return claimOfOther(group, self, position, now)
end

-- The jobs are running. Another process hears of it: a line each for worker, token, now, kind, its name, lease; then the tickets, as a
-- line each; then the bodies.
local function give(claim, group, tickets, bodies, self, now)
  -- With what makes it a table; see asTable.
  local held = { '', long }
  for i, ticket in ipairs(tickets) do
    held[2 * i + 1] = ticket
    held[2 * i + 2] = claim.token
  end
  call('HSET', named('running'), unpack(held))
  local text = table.concat(tickets, '\n')
  startLease(claim.worker, claim.token, tonumber(claim.lease), #tickets, text, now)
  count(group.kind, 'running', #tickets)
  if not claim.ear then
    call('HSET', named('latest'), claim.worker, claim.token)
    call('HDEL', named('offers'), self)
    return 'own'
  end
  local head = table.concat({ '', claim.worker, claim.token, format('%.17g', now), group.kind, group.name, claim.lease }, '\n')
  send(claim.ear, table.concat({ head, text, table.concat(bodies, '\30') }, '\30'))
  return { claim.ear, claim.token }
end
