-- What all scripts begin with. KEYS[1] is the root; every other key begins as it does, and so is in the same slot. KEYS[2]
-- never exists: while the slot moves to another node, the server refuses whatever names both (see scripts.ts).
--
-- A job's handle is its id in the form that it is stored by. Its first ten characters name the hashes that the job is in:
--   j  what it is          kind;seq;created;attempts;crashes;extras\ninput
--   s  what happened to it, or is unusual about it; see image.ts
--   d  how it completed    expires;started;finished;result
-- A ticket is a job's position, in eleven hexadecimal digits, followed by its handle: tickets sort by position.
local root = KEYS[1]
local call = redis.call

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

-- As ticket.ts has it: of an id that we made the hyphens are left out; all others are spread over 4096 hashes.
local function handleOfId(id)
  local a, b, c, d, e = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-(7%x%x%x)%-([89ab]%x%x%x)%-(%x+)$')
  if a and #e == 12 and id == string.lower(id) then return a .. b .. c .. d .. e end
  local sum = 0
  for i = 1, #id do sum = (sum * 31 + string.byte(id, i)) % 4096 end
  return string.format('=%03x======', sum) .. id
end

local function ticketOf(seq, handle)
  return string.format('%011x', seq) .. handle
end

local function handleOf(ticket)
  return string.sub(ticket, 12)
end

local function hashOf(letter, handle)
  return root .. ':' .. letter .. ':' .. string.sub(handle, 1, 10)
end

local function fieldOf(handle)
  return string.sub(handle, 11)
end

local function of(letter, handle)
  return call('HGET', hashOf(letter, handle), fieldOf(handle))
end

-- The same of many: one look for all that are in the same hash.
local function ofMany(letter, handles)
  local found = {}
  local fields, places, hash = {}, {}, nil
  local function look()
    if hash == nil then return end
    local values = call('HMGET', hash, unpack(fields))
    for i, place in ipairs(places) do found[place] = values[i] end
  end
  for i, handle in ipairs(handles) do
    local at = hashOf(letter, handle)
    if at ~= hash or #fields >= 1000 then
      look()
      fields, places, hash = {}, {}, at
    end
    fields[#fields + 1] = fieldOf(handle)
    places[#places + 1] = i
  end
  look()
  return found
end

-- Calls a command for many, with as many of them at once as a call can have.
local function inParts(items, most, command, ...)
  local head = { command, ... }
  for first = 1, #items, most do
    local args = { unpack(head) }
    for i = first, math.min(first + most - 1, #items) do args[#args + 1] = items[i] end
    call(unpack(args))
  end
end

-- What is done to each hash of many jobs: `add(batch, i, handle)` puts what the command needs of one into a batch.
local function byHash(letter, handles, command, add)
  local batch, hash = {}, nil
  for i, handle in ipairs(handles) do
    local at = hashOf(letter, handle)
    if at ~= hash or #batch >= 1000 then
      if hash ~= nil then call(command, hash, unpack(batch)) end
      batch, hash = {}, at
    end
    add(batch, i, handle)
  end
  if hash ~= nil then call(command, hash, unpack(batch)) end
end

local function addField(batch, _, handle)
  batch[#batch + 1] = fieldOf(handle)
end

local function seqIn(body)
  return tonumber(string.match(body, '^%d+;(%d+);'))
end

local function kindIn(body)
  return string.match(body, '^%d+')
end

local function lineName(lane, queue)
  return lane .. ':' .. queue
end

-- The number of a kind, made on first use, and of its queue. A queue is 'number,paused,limited'.
local function queueFlags(queue)
  local flags = call('HGET', named('queues'), queue)
  if not flags then
    flags = call('HINCRBY', root, 'queues', 1) .. ',0,0'
    call('HSET', named('queues'), queue, flags)
  end
  return flags
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
  if call('SISMEMBER', named('limited'), job) == 1 then
    call('HSET', named('queues'), queue, (string.gsub(flags, '%d$', '1')))
  end
  return num
end

local function isPaused(flags)
  return string.find(flags, ',1,', 1, true) ~= nil
end

local function isLimited(flags)
  return string.sub(flags, -1) == '1'
end

local function count(kind, field, by)
  if by ~= 0 then call('HINCRBY', named('c:' .. kind), field, by) end
end

-- Wakes processes that wait for jobs of a queue, at most as many as there are jobs; if there are none, those that have not said
-- yet what they wait for. Who brings the jobs knows.
local function wake(queue, jobs, self)
  local most = math.min(jobs, 100)
  for _, set in ipairs({ 'idle:' .. queue, 'newcomers' }) do
    call('SREM', named(set), self)
    local idle = call('SPOP', named(set), most)
    for _, ear in ipairs(idle) do
      local list = named('ear:' .. ear)
      call('RPUSH', list, queue)
      call('PEXPIRE', list, 30000)
    end
    if #idle > 0 then return end
  end
end

-- Tells other processes; who has not listened for a while hears nothing.
local function tell(sender, word, now)
  call('ZREMRANGEBYSCORE', named('ears'), '-inf', now)
  for _, ear in ipairs(call('ZRANGE', named('ears'), 0, 999)) do
    if ear ~= sender then
      local list = named('ear:' .. ear)
      call('RPUSH', list, word)
      call('LTRIM', list, -100, -1)
      call('PEXPIRE', list, 30000)
    end
  end
end
