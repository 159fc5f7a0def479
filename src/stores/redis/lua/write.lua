-- What the desk writes. ARGV: the name of the last commit when the desk began to read, a name for this one, who writes, the mark that it
-- left when it was given numbers or '', then for each thing to do its name, how many values it has, and these. First all of them are
-- checked: MRSTALE when others were quicker, MRKNOWN when a job that was taken for new exists, MRWHOLE when one that was taken for
-- no more than a number among others is more; then nothing is written. Commits have names, not numbers: a server that lost some would
-- count to the same one again. Answers { bodies, stories } of the jobs that were started by their places, '' for no story to tell.
local last = call('HGET', root, 'commit') or 'none'
local isDone = last == ARGV[2]
if not isDone and last ~= ARGV[1] then return redis.error_reply('MRSTALE others have written meanwhile') end
if not isDone and not isFreeFor(ARGV[3]) then return redis.error_reply('MRSTALE it is the turn of another') end
if not isDone and ARGV[4] ~= '' and call('GET', named('mark:' .. ARGV[3])) ~= ARGV[4] then return redis.error_reply('MRSTALE the server has forgotten who got which number') end

local checks, deeds = {}, {}
local bodies, stories = {}, {}

-- A job is as it was read: running under the same token or not, with the same story and the same end.
checks.same = function(ticket, token, story, done)
  local handle = handleOf(ticket)
  local running = call('HGET', named('running'), ticket)
  local isSame = (running and claimIn(running) or '') == token and (of('s', handle) or '') == story and (of('d', handle) or '') == done
  if not isSame or not of('j', handle) then return 'MRSTALE a job has changed' end
end

-- What is kept of a parent is as it was read: children that are plain tell it of their ends without the desk.
checks.parent = function(position, text)
  if (call('HGET', named('parents'), position) or '') ~= text then return 'MRSTALE a child has ended' end
end

-- A parent has never had these children: they may have ended, and be forgotten.
checks.unlinked = function(position, ...)
  local links = named('link:' .. position)
  if call('EXISTS', links) == 0 then return end
  local found = call('HMGET', links, ...)
  for i = 1, #found do
    if found[i] then return 'MRKNOWN a child was there before' end
  end
end

-- Tickets, or what comes `at` that place of each job's values.
local function every(values, size, at)
  local found = {}
  for i = at, #values, size do found[#found + 1] = values[i] end
  return found
end

local function areNew(tickets)
  local found = ofMany('j', spread(tickets, 11))
  for i = 1, #tickets do
    if found[i] then return 'MRKNOWN a job exists' end
  end
end

local function put(tickets, bodies, story)
  local spreads = spread(tickets, 11)
  putMany('j', spreads, bodies)
  if story == '' then return end
  local same = {}
  for i = 1, #tickets do same[i] = story end
  putMany('s', spreads, same)
end

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

-- New jobs that have the same story, and stand in the same line if any, with the same mark: their tickets and bodies.
checks.add = function(_, _, _, ...)
  return areNew(every({ ... }, 2, 1))
end

deeds.add = function(story, line, mark, ...)
  local values = { ... }
  local tickets = every(values, 2, 1)
  put(tickets, every(values, 2, 2), story)
  if line ~= '' then joinLine(line, tickets, mark) end
end

-- The same of jobs that have to pass the same gates; with their turns.
checks.addTo = function(_, _, _, ...)
  return areNew(every({ ... }, 3, 1))
end

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
  inParts(scored, 'ZADD', named('place:' .. place))
  inParts(waits, 'HSET', asTable('waits'))
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
  inParts(scored, 'ZADD', named('place:' .. place))
  inParts(waits, 'HSET', asTable('waits'))
end

-- Nobody has started them since they were read: a loan may have been open still.
local function areWaiting(tickets)
  local waits = call('HMGET', named('waits'), unpack(tickets))
  for i = 1, #tickets do
    if not waits[i] then return 'MRSTALE a job waits no longer' end
  end
end

checks.waiting = function(...)
  return areWaiting({ ... })
end

-- Jobs that waited in a place start.
local function tellOf(tickets)
  local spreads = spread(tickets, 11)
  local bodiesOf, storiesOf = ofMany('j', spreads), ofMany('s', spreads)
  for i = 1, #tickets do
    local story = storiesOf[i] or ''
    if not bodiesOf[i] or sub(story, 2, 2) == '1' then return 'MRWHOLE a job that waited is special' end
    bodies[#bodies + 1] = bodiesOf[i]
    stories[#stories + 1] = hasPast(story) and story or ''
  end
end

checks.start = function(_, _, ...)
  return areWaiting({ ... }) or tellOf({ ... })
end

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
checks['end'] = function(worker, token, _, _, size, ...)
  if call('HGET', named('l:' .. token), 'worker') ~= worker then return 'MRWHOLE a claim is gone' end
  local tokens = call('HMGET', named('running'), unpack({ ... }, 1, tonumber(size)))
  local team = token .. '~'
  for i = 1, #tokens do
    if tokens[i] ~= token and sub(tokens[i] or '', 1, #team) ~= team then return 'MRWHOLE a job that ran is special, or does not' end
  end
end

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

-- No job of the kind was started or ended meanwhile.
checks.count = function(kind, field, value)
  if (call('HGET', named('c:' .. kind), field) or '0') ~= value then return 'MRSTALE jobs were started or ended' end
end

-- What came of a loan is as it was read, and no more can come of it.
checks.loan = function(queue, begun, ended)
  local found = call('HMGET', named('loan:' .. queue), 'open', 'begun', 'ended')
  if found[1] or not found[2] or found[2] ~= begun or found[3] ~= ended then return 'MRSTALE a loan has changed' end
end

-- A new loan in the place of the one before, if there is any.
deeds.lend = function(queue, ...)
  local key = named('loan:' .. queue)
  call('DEL', key)
  if select('#', ...) > 0 then call('HSET', key, ...) end
end

-- Tickets and tokens.
deeds.run = function(...)
  call('HSET', asTable('running'), ...)
end

-- Others may have their turn. After this, which frees memory, a full server refuses nothing of what follows.
deeds.free = function()
  call('HDEL', root, 'turn')
end

deeds.call = function(command, key, ...)
  call(command, named(key), ...)
end

deeds.root = function(field, value)
  call('HSET', root, field, value)
end

-- Parts of a job: what it is, what happened to it, how it completed.
deeds.put = function(letter, handle, value)
  call('HSET', hashOf(letter, handle), fieldOf(handle), value)
end

deeds.drop = function(letter, handle)
  call('HDEL', hashOf(letter, handle), fieldOf(handle))
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

-- No numbers were given away meanwhile, which the fast path does for new groups.
checks.number = function(last)
  if (call('HGET', root, 'number') or '0') ~= last then return 'MRSTALE numbers were given away' end
end

-- A group's gate is the tally that was read; '' for none.
checks.tallied = function(key, before)
  if (tallyText(call('HGET', named('groups'), key)) or '') ~= before then return 'MRSTALE jobs of a group were added, started or ended' end
end

local function noTally(num, key)
  call('HDEL', named('tallies'), num)
  call('HDEL', named('tallynames'), num)
  call('HDEL', named('groups'), key)
end

local function listGate(num, scope, owner)
  call('ZADD', named('gates:' .. scope), num, num)
  if owner ~= '' then call('ZADD', named('gates:' .. scope .. ':' .. owner), num, num) end
end

local function unlistGate(num, scope, owner)
  call('ZREM', named('gates:' .. scope), num)
  call('ZREM', named('gates:' .. scope .. ':' .. owner), num)
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
  call('HSET', asTable('groups'), key, num)
  call('HSET', asTable('tallynames'), num, key)
  local pending, running, tag, back, line = string.match(tally, '^(.*);(.*);(.*);(.*);(.*)$')
  call('HSET', asTable('tallies'), num, struct.pack(tallyFormat, pending, running, tag, back, line))
  listGate(num, 'group', owner)
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

deeds.wake = function(queue, jobs, self)
  wake(queue, tonumber(jobs), self)
end

deeds.tell = function(sender, word)
  tell(sender, word, clock(''))
end

local function eachDeed(work)
  local at = 5
  while at <= #ARGV do
    local size = tonumber(ARGV[at + 1])
    local refusal = work(ARGV[at], at + 2, at + 1 + size)
    if refusal then return refusal end
    at = at + 2 + size
  end
end

-- It was done, and the answer got lost.
if isDone then
  local refusal = eachDeed(function(name, first, last)
    if name == 'start' then return tellOf({ unpack(ARGV, first + 2, last) }) end
  end)
  if refusal then return redis.error_reply(refusal) end
  return { bodies, stories }
end

local refusal = eachDeed(function(name, first, last)
  if checks[name] then return checks[name](unpack(ARGV, first, last)) end
end)
if refusal then return redis.error_reply(refusal) end
eachDeed(function(name, first, last)
  if deeds[name] then deeds[name](unpack(ARGV, first, last)) end
end)
call('HSET', root, 'commit', ARGV[2])
return { bodies, stories }
