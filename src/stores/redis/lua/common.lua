-- What all scripts begin with. KEYS[1] is the root; every other key begins as it does, and so is in the same slot. KEYS[2]
-- never exists: while the slot moves to another node, the server refuses whatever names both (see shard.ts).
--
-- All keys are in keys.md, with what they have and who writes them.
--
-- All values of `j`, `s` and `d` are longer than 64 bytes, with spaces where nobody minds them: see asTable.
--
-- A job's handle is what it is stored by; see ticket.ts. Its first eleven characters name the hashes that the job is in:
--   j  what it is          kind;seq;created;[+parent][unusual\n]attempts;crashes;extras\ninput; see body.ts
--   s  what happened to it, or how it is to be treated; see story.ts
--   d  how it completed    started;finished;expires;result
-- A ticket is a job's position, in eleven hexadecimal digits, followed by its handle: tickets sort by position. In the list of a line,
-- one of a job that has a story is followed by a star; one of a child that has none, by the position of its parent and a tilde.
local root = KEYS[1]
local call = redis.call
local sub, byte, format = string.sub, string.byte, string.format

-- Somebody has emptied the server, or what it has of the slot is not all.
if call('EXISTS', root) == 0 then return redis.error_reply('NOROOT the key that always exists does not') end

local function named(name)
  return root .. ':' .. name
end

-- The store's clock, unless the caller has one.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Who has lost to others too often may have the desk for itself for a while: 'name;until'.
local function isFreeFor(name)
  local turn = call('HGET', root, 'turn')
  if not turn then return true end
  local holder, till = string.match(turn, '^([^;]*);(.*)$')
  return holder == name or tonumber(till) <= clock('')
end

-- As ticket.ts has it: an id that we made is its own handle; all others are spread over 4096 hashes,
-- those that differ in their last two characters alone in the same one: children of a flow that come together are found together.
local function handleOfId(id)
  if #id == 36 and string.find(id, '^[^=].......%-....%-7...%-....%-') then return id end
  local sum = 0
  for i = 1, #id - 2 do sum = (sum * 31 + byte(id, i)) % 4096 end
  return format('=%03x=======', sum) .. id
end

local function idOf(handle)
  return byte(handle) == 61 and sub(handle, 12) or handle
end

local function ticketOf(seq, handle)
  return format('%011x', seq) .. handle
end

local function handleOf(ticket)
  return sub(ticket, 12)
end

local function idIn(ticket)
  return byte(ticket, 12) == 61 and sub(ticket, 23) or sub(ticket, 12)
end

local function hashOf(letter, handle)
  return root .. ':' .. letter .. ':' .. sub(handle, 1, 11)
end

local function fieldOf(handle)
  return sub(handle, 12)
end

local function of(letter, handle)
  return call('HGET', hashOf(letter, handle), fieldOf(handle))
end

-- In the place of a job that has moved to another shard.
local function isStub(body)
  return body and byte(body, 1) == 64
end

-- As many values as a command gets at once. Lua has room for 8000 on its stack, and what comes in pairs is not to be torn apart.
local partSize = 2000

-- Jobs that follow each other and are in the same hash, as groups { bucket, fields, first }; `skip` is 0 for handles, 11 for tickets.
local function spread(items, skip)
  local groups, fields, bucket, size = {}, nil, nil, 0
  local from, to, rest = skip + 1, skip + 11, skip + 12
  -- With a value for each field.
  local most = partSize / 2
  for i = 1, #items do
    local item = items[i]
    local at = sub(item, from, to)
    if at ~= bucket or size == most then
      fields, bucket, size = {}, at, 0
      groups[#groups + 1] = { bucket = at, fields = fields, first = i }
    end
    size = size + 1
    fields[size] = sub(item, rest)
  end
  return groups
end

local function hashIn(letter, group)
  return root .. ':' .. letter .. ':' .. group.bucket
end

-- What a letter has of many.
local function ofMany(letter, groups)
  if #groups == 1 then return call('HMGET', hashIn(letter, groups[1]), unpack(groups[1].fields)) end
  local found = {}
  for _, group in ipairs(groups) do
    local values = call('HMGET', hashIn(letter, group), unpack(group.fields))
    for i = 1, #values do found[group.first + i - 1] = values[i] end
  end
  return found
end

local function dropMany(letter, groups)
  for _, group in ipairs(groups) do call('HDEL', hashIn(letter, group), unpack(group.fields)) end
end

local function putMany(letter, groups, values)
  for _, group in ipairs(groups) do
    local pairsOf = {}
    for i, field in ipairs(group.fields) do
      pairsOf[2 * i - 1] = field
      pairsOf[2 * i] = values[group.first + i - 1]
    end
    call('HSET', hashIn(letter, group), unpack(pairsOf))
  end
end

-- Whether a story tells a worker of earlier runs.
local pastWords = { '"attempt":', '"crashes":', '"readyAt":', '"retryDelay":' }

local function hasPast(story)
  for _, word in ipairs(pastWords) do
    if string.find(story, word, 66, true) then return true end
  end
  return false
end

-- Tickets that are all of one length, one behind the other.
local function ticketsIn(text, length)
  local tickets = {}
  for i = 1, #text / length do tickets[i] = sub(text, (i - 1) * length + 1, i * length) end
  return tickets
end

-- Calls a command for many, with as many of them at once as a call can have.
local function inParts(items, command, key)
  for first = 1, #items, partSize do call(command, key, unpack(items, first, math.min(first + partSize - 1, #items))) end
end

-- What a command answers to many, one answer for each.
local function ofEach(items, command, key)
  if #items > 0 and #items <= partSize then return call(command, key, unpack(items)) end
  local found = {}
  for first = 1, #items, partSize do
    local values = call(command, key, unpack(items, first, math.min(first + partSize - 1, #items)))
    for i = 1, #values do found[first + i - 1] = values[i] end
  end
  return found
end

-- What a hash has of many; false for what it has not.
local function allOf(name, fields)
  return ofEach(fields, 'HMGET', named(name))
end

local function anyExists(keys)
  for first = 1, #keys, partSize do
    if call('EXISTS', unpack(keys, first, math.min(first + partSize - 1, #keys))) > 0 then return true end
  end
  return false
end

-- What `running` has of a job: the token of its claim; behind it a star if only the desk may end it, a plus and the position of its
-- parent, or a tilde and the numbers of its gates, by colons: these are told of its end.
local function claimIn(value)
  return (string.gsub(value, '[*+~][^*+~]*$', ''))
end

-- The position of the parent of a child that is otherwise plain.
local function parentIn(body)
  return string.match(body, '^%d+;%x+;[^;]*;%+(%d+)')
end

-- The ticket of an entry in the list of a line, and its mark.
local function ticketIn(entry)
  local mark = byte(entry, -1)
  if mark == 42 then return sub(entry, 1, -2), '*' end
  if mark == 126 then return sub(entry, 1, -13), sub(entry, -12) end
  return entry, ''
end

local function parentMark(position)
  return format('%011x', position) .. '~'
end

local function seqIn(body)
  return tonumber(string.match(body, '^%d+;(%x+);'), 16)
end

local function lineName(lane, queue)
  return lane .. ':' .. queue
end

-- Gives queues and kinds a name that they never had: who knows them by the one that they have need not read them.
local function sheetsChanged()
  local time = call('TIME')
  local numbers = call('HMGET', root, 'queues', 'kinds')
  call('HSET', root, 'sheets', table.concat({ time[1], time[2], numbers[1] or 0, numbers[2] or 0 }, '.'))
end

local function setQueue(queue, flags)
  call('HSET', named('queues'), queue, flags)
  sheetsChanged()
end

-- The number of a kind, made on first use, and of its queue. A queue is 'number,paused,limited'.
local function queueFlags(queue)
  local flags = call('HGET', named('queues'), queue)
  if not flags then
    flags = call('HINCRBY', root, 'queues', 1) .. ',0,0'
    setQueue(queue, flags)
  end
  return flags
end

-- Whether the definition of that name has limits.
local function isLimitedJob(name)
  return call('SISMEMBER', named('limited'), name) == 1
end

local function kindNumber(name)
  local num = call('HGET', named('kinds'), name)
  if num then return num end
  local lane, queue, job = string.match(name, '^(%d+):([^:]*):(.*)$')
  local flags = queueFlags(queue)
  num = tostring(call('HINCRBY', root, 'kinds', 1))
  call('HSET', named('kinds'), name, num)
  call('HSET', named('kindnames'), num, name)
  -- Its definition has limits: whoever claims from the queue has to know.
  if isLimitedJob(job) then flags = string.gsub(flags, '%d$', '1') end
  setQueue(queue, flags)
  return num
end

local function isPaused(flags)
  return string.find(flags, ',1,', 1, true) ~= nil
end

local function isLimited(flags)
  return sub(flags, -1) == '1'
end

-- A hash whose values are all short is searched from end to end. One that is longer makes it a table for good.
local long = string.rep(' ', 65)

local function asTable(name)
  local hash = named(name)
  if call('EXISTS', hash) == 0 then call('HSET', hash, '', long) end
  return hash
end

local function padded(text)
  if #text > 64 then return text end
  return text .. sub(long, 1, 65 - #text)
end

-- Jobs of a claim complete: they are kept for a while, with their results if there are any, or forgotten.
local function complete(token, tickets, retain, now, results)
  local spreads = spread(tickets, 11)
  -- First, for it frees memory: after it, a full server refuses nothing of what follows.
  inParts(tickets, 'HDEL', named('running'))
  if retain > 0 then
    local expires = now + retain
    local started = call('HGET', named('l:' .. token), 'at') or ''
    local head = padded(started .. ';' .. format('%.17g', now) .. ';' .. format('%.17g', expires)) .. ';'
    local ends, scored = {}, {}
    for i, ticket in ipairs(tickets) do
      ends[i] = results and head .. results[i] or head
      scored[2 * i - 1] = expires
      scored[2 * i] = ticket
    end
    putMany('d', spreads, ends)
    inParts(scored, 'ZADD', named('state:5'))
    return
  end
  dropMany('j', spreads)
  for _, group in ipairs(spreads) do
    local hash = hashIn('s', group)
    if call('EXISTS', hash) == 1 then call('HDEL', hash, unpack(group.fields)) end
  end
end

-- Jobs are a worker's own for `lease` ms; their tickets as a line each.
local function startLease(worker, token, lease, size, tickets, now)
  call('HSET', named('l:' .. token), 'worker', worker, 'at', now, 'left', size, 'tickets', tickets)
  call('SADD', named('w:' .. worker), token)
  call('ZADD', named('workers'), now + lease, worker)
end

-- A claim has so many jobs less.
local function leaseDone(worker, token, by)
  local lease = named('l:' .. token)
  if call('HINCRBY', lease, 'left', -by) <= 0 then
    call('DEL', lease)
    call('SREM', named('w:' .. worker), token)
  end
end

local function count(kind, field, by)
  if by ~= 0 then call('HINCRBY', named('c:' .. kind), field, by) end
end

-- Tells one process; it need not hear it soon.
local function send(ear, word)
  local list = named('ear:' .. ear)
  call('RPUSH', list, word)
  call('PEXPIRE', list, 30000)
end

-- Wakes processes that wait for jobs of a queue, at most as many as there are jobs; if there are none, those that have not said
-- yet what they wait for. Who brings the jobs knows.
local function wake(queue, jobs, self)
  for _, set in ipairs({ 'idle:' .. queue, 'newcomers' }) do
    call('SREM', named(set), self)
    local left = math.min(jobs, 100)
    local isAwake = false
    -- Some may have gone: with each deploy, all that there were.
    for _ = 1, 1000 do
      local ears = left > 0 and call('SPOP', named(set), left) or {}
      for _, ear in ipairs(ears) do
        if call('ZSCORE', named('ears'), ear) then
          send(ear, queue)
          left = left - 1
          isAwake = true
        end
      end
      if #ears == 0 then break end
    end
    if isAwake then return end
  end
end

-- A process that no longer listens.
local function forgetEar(ear)
  call('ZREM', named('ears'), ear)
  call('SREM', named('newcomers'), ear)
  call('HDEL', named('offers'), ear)
end

-- Tells other processes; who has not listened for a while hears nothing.
local function tell(sender, word, now)
  for _, ear in ipairs(call('ZRANGEBYSCORE', named('ears'), '-inf', now, 'LIMIT', 0, 100)) do forgetEar(ear) end
  for _, ear in ipairs(call('ZRANGE', named('ears'), 0, 999)) do
    if ear ~= sender then
      send(ear, word)
      call('LTRIM', named('ear:' .. ear), -100, -1)
    end
  end
end
