-- What write.lua writes of jobs: what they are, who runs them, what is kept beside them.

-- Tickets, or what comes `at` that place of each job's values.
local function every(values, size, at)
  local found = {}
  for i = at, #values, size do found[#found + 1] = values[i] end
  return found
end

local function put(tickets, bodies, story)
  local spreads = spread(tickets, 11)
  putMany('j', spreads, bodies)
  if story == '' then return end
  local same = {}
  for i = 1, #tickets do same[i] = story end
  putMany('s', spreads, same)
end

-- New jobs that have the same story, and stand in the same line if any, with the same mark: their tickets and bodies.
deeds.add = function(story, line, mark, ...)
  local values = { ... }
  local tickets = every(values, 2, 1)
  put(tickets, every(values, 2, 2), story)
  if line ~= '' then joinLine(line, tickets, mark) end
end

-- The same of jobs that have to pass the same gates; with their turns.
deeds.addTo = function(place, wait, story, ...)
  local values = { ... }
  local tickets, turns = every(values, 3, 1), every(values, 3, 3)
  put(tickets, every(values, 3, 2), story)
  local scored, waits = {}, {}
  for i, ticket in ipairs(tickets) do
    scored[2 * i - 1] = turns[i]
    scored[2 * i] = ticket
    waits[2 * i - 1] = ticket
    waits[2 * i] = wait
  end
  putInPlace(place, scored, waits)
end

-- Jobs that waited in a place are running under a token.
deeds.start = function(place, token, ...)
  local tickets = { ... }
  local held = {}
  local waits = call('HMGET', named('waits'), ...)
  for i, ticket in ipairs(tickets) do
    local gates = string.match(waits[i], '[^;]*$')
    held[2 * i - 1] = ticket
    held[2 * i] = gates == '' and token or token .. '~' .. gates
  end
  inParts(tickets, 'ZREM', named('place:' .. place))
  inParts(tickets, 'HDEL', named('waits'))
  inParts(held, 'HSET', asTable('running'))
end

-- Jobs of one claim complete, and their gates have been told: worker, token, for how long they are kept, now, how many there are,
-- their tickets, then their results if any has one.
deeds['end'] = function(worker, token, retain, now, size, ...)
  local values = { ... }
  local tickets, results = {}, nil
  for i = 1, tonumber(size) do tickets[i] = values[i] end
  if #values > #tickets then
    results = {}
    for i = 1, #tickets do results[i] = values[#tickets + i] end
  end
  complete(token, tickets, tonumber(retain), tonumber(now), results)
  leaseDone(worker, token, #tickets)
end

-- Tickets and tokens.
deeds.run = function(...)
  call('HSET', asTable('running'), ...)
end

-- Parts of a job: what it is, what happened to it, how it completed.
deeds.put = function(letter, handle, value)
  call('HSET', hashOf(letter, handle), fieldOf(handle), value)
end

deeds.drop = function(letter, handle)
  call('HDEL', hashOf(letter, handle), fieldOf(handle))
end

deeds.leaseLess = function(token, by)
  local worker = call('HGET', named('l:' .. token), 'worker')
  if worker then leaseDone(worker, token, by) end
end

-- Unless it has claimed something since it was looked at, which the fast path does without a commit: then it is alive, and
-- whoever rescues its jobs has to find them.
deeds.noWorker = function(id)
  local claims = named('w:' .. id)
  for _, token in ipairs(call('SMEMBERS', claims)) do
    if call('EXISTS', named('l:' .. token)) == 1 then return end
  end
  call('ZREM', named('workers'), id)
  call('HDEL', named('latest'), id)
  call('DEL', claims)
end

deeds.died = function(cause, name, message, first, last, sample, by)
  local key = named('cause:' .. cause)
  call('HSETNX', key, 'name', name)
  call('HSETNX', key, 'firstAt', first)
  call('HSET', key, 'message', message, 'lastAt', last, 'sample', sample)
  call('HINCRBY', key, 'count', by)
  call('ZADD', named('causes'), last, cause)
end

deeds.rose = function(cause, by)
  local key = named('cause:' .. cause)
  if call('HINCRBY', key, 'count', -by) <= 0 then
    call('DEL', key)
    call('ZREM', named('causes'), cause)
  end
end

deeds.forgetFans = function(parent)
  local rows = call('HGETALL', named('link:' .. parent))
  for i = 1, #rows, 2 do
    -- See link-text.ts.
    if string.find(rows[i + 1], '^[^;]*;"') then
      call('HDEL', named('link:' .. parent), rows[i])
      call('ZREM', named('linked:' .. parent), rows[i])
    end
  end
end

-- One that is there already keeps its place.
deeds.step = function(position, name, number, open, state)
  local steps = named('steps:' .. position)
  local before = call('HGET', steps, name)
  if before then number = string.match(before, '^%d(%d+):') end
  call('HSET', steps, name, open .. number .. ':' .. state)
end
