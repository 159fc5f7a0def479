-- What the desk writes. ARGV: the name of the last commit when the desk began to read, a name for this one, who writes, the mark that it
-- left when it was given numbers or '', then for each thing to do its name, how many values it has, and these; first all that has to be so, or nothing is written: MRSTALE when others were quicker, MRKNOWN
-- when a job that was taken for new exists. Commits have names, not numbers: a server that lost some would count to the same one again.
local last = call('HGET', root, 'commit') or 'none'
-- It was done, and the answer got lost.
if last == ARGV[2] then return 'OK' end
if last ~= ARGV[1] then return redis.error_reply('MRSTALE others have written meanwhile') end
if not isFreeFor(ARGV[3]) then return redis.error_reply('MRSTALE it is the turn of another') end
if ARGV[4] ~= '' and call('GET', named('mark:' .. ARGV[3])) ~= ARGV[4] then return redis.error_reply('MRSTALE the server has forgotten who got which number') end

local deeds = {}

-- A job is as it was read: running under the same token or not, with the same story and the same end.
deeds.same = function(ticket, token, story, done)
  local handle = handleOf(ticket)
  local running = call('HGET', named('running'), ticket)
  if running then running = string.gsub(running, '%*$', '') end
  local isSame = (running or '') == token and (of('s', handle) or '') == story and (of('d', handle) or '') == done
  if not isSame or not of('j', handle) then return 'MRSTALE a job has changed' end
end

deeds.new = function(handle)
  if of('j', handle) then return 'MRKNOWN a job exists' end
end

-- No job of the kind was started or ended meanwhile.
deeds.count = function(kind, field, value)
  if (call('HGET', named('c:' .. kind), field) or '0') ~= value then return 'MRSTALE jobs were started or ended' end
end

deeds.run = function(ticket, token)
  call('HSET', asTable('running'), ticket, token)
end

deeds.wait = function(ticket, wait)
  call('HSET', asTable('waits'), ticket, wait)
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

-- Joins a line behind all others, if it has the highest position; otherwise it is among those that come back.
deeds.joinLine = function(line, ticket, mark)
  local list = named('line:' .. line)
  local last = call('LINDEX', list, -1)
  if not last or last < ticket then call('RPUSH', list, ticket .. mark) else call('ZADD', named('back:' .. line), 0, ticket) end
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
    for i, entry in ipairs(heads) do tickets[i] = (string.gsub(entry, '%*$', '')) end
    local gone = call('SMISMEMBER', named('gone'), unpack(tickets))
    local size = 0
    while size < #heads and gone[size + 1] == 1 do size = size + 1 end
    if size == 0 then return end
    call('LPOP', list, size)
    call('SREM', named('gone'), unpack(tickets, 1, size))
    if size < #heads then return end
  end
end

deeds.leaseLeft = function(token, by)
  local lease = named('l:' .. token)
  local worker = call('HGET', lease, 'worker')
  if not worker then return end
  if call('HINCRBY', lease, 'left', by) <= 0 then
    call('DEL', lease)
    call('SREM', named('w:' .. worker), token)
  end
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

deeds.gate = function(num, key, scope, owner, due, fading, isActive, isParked, row)
  local member = format('%016.0f', num) .. key
  if call('HSET', named('gate'), key, row) == 1 then
    call('HSET', named('gatenums'), num, key)
    call('ZADD', named('gates:' .. scope), num, num)
    if owner ~= '' then call('ZADD', named('gates:' .. scope .. ':' .. owner), num, num) end
  end
  if due ~= '' then call('ZADD', named('gatedue'), due, member) else call('ZREM', named('gatedue'), member) end
  if fading ~= '' then call('ZADD', named('gatefading'), fading, member) else call('ZREM', named('gatefading'), member) end
  call(isParked == '1' and 'SADD' or 'SREM', named('parked'), num)
  if scope ~= 'queue' and scope ~= 'job' then return end
  if isActive == '1' then call('ZADD', named('activegates'), num, num) else call('ZREM', named('activegates'), num) end
  if scope == 'job' then call(isActive == '1' and 'SADD' or 'SREM', named('limited'), string.match(key, '[^\n]*$')) end
end

deeds.noGate = function(num)
  local key = call('HGET', named('gatenums'), num)
  if not key then return end
  local scope, owner, name = string.match(key, '^([^\n]*)\n([^\n]*)\n(.*)$')
  local member = format('%016.0f', num) .. key
  call('HDEL', named('gate'), key)
  call('HDEL', named('gatenums'), num)
  call('ZREM', named('gates:' .. scope), num)
  call('ZREM', named('gates:' .. scope .. ':' .. owner), num)
  call('ZREM', named('gatedue'), member)
  call('ZREM', named('gatefading'), member)
  call('ZREM', named('activegates'), num)
  call('SREM', named('parked'), num)
  if scope == 'job' then call('SREM', named('limited'), name) end
end

-- Gates of an owner that jobs are parked behind are looked at again.
deeds.lookAgain = function(scope, owner, due)
  for _, num in ipairs(call('ZRANGE', named('gates:' .. scope .. ':' .. owner), 0, -1)) do
    local key = call('HGET', named('gatenums'), num)
    local row = cjson.decode(call('HGET', named('gate'), key))
    if row.parked > 0 then
      row.due = tonumber(due)
      call('HSET', named('gate'), key, cjson.encode(row))
      call('ZADD', named('gatedue'), due, format('%016.0f', num) .. key)
    end
  end
end

deeds.forgetFans = function(parent)
  local rows = call('HGETALL', named('link:' .. parent))
  for i = 1, #rows, 2 do
    local fan = cjson.decode(rows[i + 1]).fan
    if fan and fan ~= cjson.null then
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

local at = 5
while at <= #ARGV do
  local size = tonumber(ARGV[at + 1])
  local refusal = deeds[ARGV[at]](unpack(ARGV, at + 2, at + 1 + size))
  if refusal then return redis.error_reply(refusal) end
  at = at + 2 + size
end
call('HSET', root, 'commit', ARGV[2])
return 'OK'
