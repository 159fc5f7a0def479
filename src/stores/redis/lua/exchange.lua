-- Ends plain jobs and claims plain jobs. ARGV: now, worker, this process's ear or '', the number of ends, then those: groups of
-- token, kind, retain, how many, then ticket and result of each; then, if jobs are asked for: token, lease in ms, shared slots,
-- slots of each of the four lanes, and for each pick: queue, lane, take.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise
-- { now, { places of ends that were lost }, { kind, name … }, ticket, body, story, … }.
local now = clock(ARGV[1])
local worker, ear = ARGV[2], ARGV[3]
local at = 4

local function nextArg()
  at = at + 1
  return ARGV[at - 1]
end

local function queueOfKind(kind)
  local name = call('HGET', named('kindnames'), kind) or ''
  return call('HGET', named('queues'), string.match(name, '^%d+:([^:]*):') or '') or ''
end

-- First everything is looked at, so that nothing has been written if it is for the desk.
local running = named('running')
local groups = {}
local lost = {}
local endCount = tonumber(nextArg())
local ended = 0
while ended < endCount do
  local group = { token = nextArg(), kind = nextArg(), retain = tonumber(nextArg()), tickets = {}, handles = {}, results = {} }
  local size = tonumber(nextArg())
  local tickets, results = {}, {}
  for i = 1, size do
    tickets[i] = nextArg()
    results[i] = nextArg()
  end
  -- Its end tells the limits of its queue that there is room.
  if isLimited(queueOfKind(group.kind)) then return { 'desk' } end
  local owner = call('HGET', named('l:' .. group.token), 'worker')
  local tokens = call('HMGET', running, unpack(tickets))
  for i = 1, size do
    if tokens[i] == group.token and owner == worker then
      group.tickets[#group.tickets + 1] = tickets[i]
      group.handles[#group.handles + 1] = handleOf(tickets[i])
      group.results[#group.results + 1] = results[i]
    elseif tokens[i] == group.token .. '*' and owner == worker then
      return { 'desk' }
    else
      lost[#lost + 1] = ended + i
    end
  end
  ended = ended + size
  groups[#groups + 1] = group
end

local token = ARGV[at]
local lease, shared
local own, picks = {}, {}
if token then
  if call('EXISTS', named('l:' .. token)) == 1 or call('HGET', named('latest'), worker) == token then return { 'desk' } end
  at = at + 1
  lease = tonumber(nextArg())
  shared = tonumber(nextArg())
  for lane = 0, 3 do own[lane] = tonumber(nextArg()) end
  while at <= #ARGV do
    local pick = { queue = nextArg(), lane = tonumber(nextArg()), take = tonumber(nextArg()) }
    local flags = call('HGET', named('queues'), pick.queue)
    if flags and isLimited(flags) then return { 'desk' } end
    if flags and not isPaused(flags) then
      pick.line = lineName(pick.lane, pick.queue)
      picks[#picks + 1] = pick
    else
      picks[#picks + 1] = { isEmpty = true, queue = pick.queue, lane = pick.lane, take = 0 }
    end
  end
end

-- The lines that are claimed from: what is taken of each, and how.
local lines = {}
local hasGone = token and call('EXISTS', named('gone')) == 1
local taken, fromBack = {}, {}

local function lineAt(name)
  local line = lines[name]
  if not line then
    line = { name = name, at = 0, ahead = {}, next = 1, back = call('ZRANGE', named('back:' .. name), 0, 999), nextBack = 1, takenBack = {} }
    lines[name] = line
  end
  return line
end

-- The next one of the list that still stands in it.
local function headOf(line, want)
  while line.next > #line.ahead and not line.isDrained do
    local found = call('LRANGE', named('line:' .. line.name), line.at, line.at + want - 1)
    line.isDrained = #found < want
    line.at = line.at + #found
    local ahead = {}
    if hasGone and #found > 0 then
      local tickets = {}
      for i, entry in ipairs(found) do tickets[i] = (string.gsub(entry, '%*$', '')) end
      local gone = call('SMISMEMBER', named('gone'), unpack(tickets))
      line.gone = line.gone or {}
      for i, entry in ipairs(found) do
        if gone[i] == 1 then line.gone[#line.gone + 1] = tickets[i] end
        ahead[#ahead + 1] = { entry = gone[i] == 0 and entry or false }
      end
    else
      for i, entry in ipairs(found) do ahead[i] = { entry = entry } end
    end
    line.ahead, line.next = ahead, 1
    line.seen = (line.seen or 0) + #ahead
  end
  while line.ahead[line.next] and not line.ahead[line.next].entry do line.next = line.next + 1 end
  if line.next > #line.ahead then
    if line.isDrained then return nil end
    return headOf(line, want)
  end
  return line.ahead[line.next].entry
end

local isForDesk = false

local function take(pick, want)
  local line = lineAt(pick.line)
  local found = 0
  while found < want do
    local head = headOf(line, math.min(want - found, 1000))
    local back = line.back[line.nextBack]
    if back and (not head or back < head) then
      line.nextBack = line.nextBack + 1
      line.takenBack[#line.takenBack + 1] = back
      taken[#taken + 1] = back
      fromBack[#taken] = true
    elseif head then
      if string.byte(head, -1) == 42 then
        isForDesk = true
        return found
      end
      line.next = line.next + 1
      taken[#taken + 1] = head
    else
      break
    end
    found = found + 1
  end
  return found
end

if token then
  for pass = 1, 2 do
    for _, pick in ipairs(picks) do
      local mine = own[pick.lane]
      local want = shared + mine
      if pass == 1 then want = math.min(want, pick.take) end
      if not pick.isEmpty and want > 0 then
        local found = take(pick, want)
        if found < want then pick.isEmpty = true end
        own[pick.lane] = mine - math.min(found, mine)
        shared = shared - math.max(0, found - mine)
      end
    end
  end
  if isForDesk then return { 'desk' } end
end

local handles = {}
for i, ticket in ipairs(taken) do handles[i] = handleOf(ticket) end
local bodies = ofMany('j', handles)
local stories = {}
for i in pairs(fromBack) do
  stories[i] = of('s', handles[i])
  -- The second letter: only the desk may give it to a worker.
  if stories[i] and string.sub(stories[i], 2, 2) == '1' then return { 'desk' } end
end
for i in ipairs(taken) do
  if not bodies[i] then return { 'desk' } end
end

-- Now it is written.
for _, group in ipairs(groups) do
  local size = #group.tickets
  if size > 0 then
    local leaseKey = named('l:' .. group.token)
    local keeps = group.retain > 0
    -- First, for it frees memory: after it, a full server refuses nothing of what follows.
    inParts(group.tickets, 1000, 'HDEL', running)
    if keeps then
      local expires = now + group.retain
      local started = call('HGET', leaseKey, 'at')
      local head = string.format('%.17g', expires) .. ';' .. started .. ';' .. string.format('%.17g', now) .. ';'
      byHash('d', group.handles, 'HSET', function(batch, i, handle)
        batch[#batch + 1] = fieldOf(handle)
        batch[#batch + 1] = head .. group.results[i]
      end)
      local scored = {}
      for i, ticket in ipairs(group.tickets) do
        scored[2 * i - 1] = expires
        scored[2 * i] = ticket
      end
      inParts(scored, 1000, 'ZADD', named('state:5'))
    else
      byHash('j', group.handles, 'HDEL', addField)
      byHash('s', group.handles, 'HDEL', addField)
    end
    if call('HINCRBY', leaseKey, 'left', -size) <= 0 then
      call('DEL', leaseKey)
      call('SREM', named('w:' .. worker), group.token)
    end
    count(group.kind, 'running', -size)
    count(group.kind, 'total_completed', size)
    if keeps then count(group.kind, 'completed', size) end
  end
end

local answer = { string.format('%.17g', now), lost, {} }
if #taken > 0 then
  for _, line in pairs(lines) do
    local key = named('line:' .. line.name)
    -- What was looked at and not taken stays; what is gone and stands before it goes.
    local passed = line.at - (#line.ahead - line.next + 1)
    if passed > 0 then call('LPOP', key, passed) end
    if line.gone then
      local left = {}
      for i = line.next, #line.ahead do
        if not line.ahead[i].entry then left[#left + 1] = true end
      end
      local over = #line.gone - #left
      if over > 0 then
        local tickets = {}
        for i = 1, over do tickets[i] = line.gone[i] end
        inParts(tickets, 1000, 'SREM', named('gone'))
      end
    end
    inParts(line.takenBack, 1000, 'ZREM', named('back:' .. line.name))
  end
  local held = {}
  for i, ticket in ipairs(taken) do
    held[2 * i - 1] = ticket
    held[2 * i] = token
  end
  inParts(held, 1000, 'HSET', running)
  call('HSET', named('l:' .. token), 'worker', worker, 'at', now, 'left', #taken, 'tickets', table.concat(taken, '\n'))
  call('SADD', named('w:' .. worker), token)
  call('ZADD', named('workers'), now + lease, worker)
  call('HSET', named('latest'), worker, token)
  local kinds = {}
  for i in ipairs(taken) do
    local kind = kindIn(bodies[i])
    kinds[kind] = (kinds[kind] or 0) + 1
    answer[#answer + 1] = taken[i]
    answer[#answer + 1] = bodies[i]
    answer[#answer + 1] = stories[i] or ''
  end
  for kind, size in pairs(kinds) do
    count(kind, 'pending', -size)
    count(kind, 'running', size)
    answer[3][#answer[3] + 1] = kind
    answer[3][#answer[3] + 1] = call('HGET', named('kindnames'), kind)
  end
end

-- Who has room left waits to be woken; a full server has no room for that, and then it finds out by itself.
if token and ear ~= '' and shared > 0 then
  local told = {}
  for _, pick in ipairs(picks) do
    if not told[pick.queue] then redis.pcall('SADD', named('idle:' .. pick.queue), ear) end
    told[pick.queue] = true
  end
end

return answer
