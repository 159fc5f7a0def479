-- What write.lua writes of lines, places, loans and gates.
local deeds = {}

-- Joins a line behind all others, if it has the highest position; otherwise it is among those that come back.
local function joinLine(line, tickets, mark)
  local list = named('line:' .. line)
  local last = call('LINDEX', list, -1) or ''
  local joining = {}
  for _, ticket in ipairs(tickets) do
    if last < ticket then
      joining[#joining + 1] = mark == '' and ticket or ticket .. mark
      last = ticket
    else
      call('ZADD', named('back:' .. line), 0, ticket)
    end
  end
  inParts(joining, 'RPUSH', list)
end

-- Whether a queue is paused and has limits. It may have got a kind meanwhile that has some.
deeds.queue = function(queue, flags)
  if isLimited(call('HGET', named('queues'), queue) or '') then flags = string.gsub(flags, '%d$', '1') end
  setQueue(queue, flags)
end

-- One that was there, and came anew.
deeds.joinLine = function(line, ticket, mark)
  joinLine(line, { ticket }, mark)
end

-- Leaves its line; in a list it cannot be found, so it is marked as gone.
deeds.leaveLine = function(line, ticket)
  if call('ZREM', named('back:' .. line), ticket) == 0 then call('SADD', named('gone'), ticket) end
end

-- Those at the head of a list that are gone.
deeds.trimLine = function(line)
  local list = named('line:' .. line)
  if call('EXISTS', named('gone')) == 0 then return end
  for _ = 1, 100 do
    local heads = call('LRANGE', list, 0, 99)
    if #heads == 0 then return end
    local tickets = {}
    for i, entry in ipairs(heads) do tickets[i] = ticketIn(entry) end
    local gone = call('SMISMEMBER', named('gone'), unpack(tickets))
    local size = 0
    while size < #heads and gone[size + 1] == 1 do size = size + 1 end
    if size == 0 then return end
    call('LPOP', list, size)
    call('SREM', named('gone'), unpack(tickets, 1, size))
    if size < #heads then return end
  end
end

-- Jobs that have to pass gates: their tickets, turns, and what traffic control has to know of them.
deeds.enter = function(place, ...)
  local values = { ... }
  local scored, waits = {}, {}
  for i = 1, #values, 3 do
    scored[#scored + 1] = values[i + 1]
    scored[#scored + 1] = values[i]
    waits[#waits + 1] = values[i]
    waits[#waits + 1] = values[i + 2]
  end
  putInPlace(place, scored, waits)
end

-- A new loan in the place of the one before, if there is any.
deeds.lend = function(queue, ...)
  local key = named('loan:' .. queue)
  call('DEL', key)
  if select('#', ...) > 0 then call('HSET', key, ...) end
end

local function noRecord(num, key)
  local member = format('%016.0f', num) .. key
  call('HDEL', named('gate'), key)
  call('HDEL', named('gatenums'), num)
  call('ZREM', named('gatedue'), member)
  call('ZREM', named('gatefading'), member)
  call('ZREM', named('activegates'), num)
  call('SREM', named('parked'), num)
end

deeds.tally = function(num, key, owner, tally)
  if call('HEXISTS', named('gate'), key) == 1 then noRecord(num, key) end
  nameTally(num, key, owner)
  local pending, running, tag, back, line = string.match(tally, '^(.*);(.*);(.*);(.*);(.*)$')
  call('HSET', asTable('tallies'), num, struct.pack(tallyFormat, pending, running, tag, back, line))
end

deeds.gate = function(num, key, scope, owner, due, fading, isActive, isParked, row)
  local member = format('%016.0f', num) .. key
  if scope == 'group' then noTally(num, key) end
  if call('HSET', named('gate'), key, row) == 1 then
    call('HSET', named('gatenums'), num, key)
    listGate(num, scope, owner)
  end
  if due ~= '' then call('ZADD', named('gatedue'), due, member) else call('ZREM', named('gatedue'), member) end
  if fading ~= '' then call('ZADD', named('gatefading'), fading, member) else call('ZREM', named('gatefading'), member) end
  call(isParked == '1' and 'SADD' or 'SREM', named('parked'), num)
  if scope ~= 'queue' and scope ~= 'job' then return end
  if isActive == '1' then call('ZADD', named('activegates'), num, num) else call('ZREM', named('activegates'), num) end
  if scope == 'job' then call(isActive == '1' and 'SADD' or 'SREM', named('limited'), string.match(key, '[^\n]*$')) end
end

deeds.noGate = function(num, key)
  local scope, owner, name = string.match(key, '^([^\n]*)\n([^\n]*)\n(.*)$')
  noTally(num, key)
  noRecord(num, key)
  unlistGate(num, scope, owner)
  if scope == 'job' then call('SREM', named('limited'), name) end
end

-- Gates of an owner that jobs are parked behind are looked at again.
deeds.lookAgain = function(scope, owner, due)
  for _, num in ipairs(call('ZRANGE', named('gates:' .. scope .. ':' .. owner), 0, -1)) do
    local key = call('HGET', named('gatenums'), num)
    local row = key and cjson.decode(call('HGET', named('gate'), key))
    -- Nobody is parked behind what is but a tally.
    if row and row.parked > 0 then
      row.due = tonumber(due)
      call('HSET', named('gate'), key, cjson.encode(row))
      call('ZADD', named('gatedue'), due, format('%016.0f', num) .. key)
    end
  end
end
