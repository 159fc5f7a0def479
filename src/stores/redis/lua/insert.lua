-- Adds plain jobs. ARGV: now, this process's ear or '', the number of kinds, their names ('lane:queue:name'), then for each job: which kind, handle, when
-- it is due ('' at once, '+ms' later, 'ms' at that time), and the rest of its body.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise { now, { index, state } … of those that exist }.
local now = clock(ARGV[1])
local kindCount = tonumber(ARGV[3])
local kinds = {}
for i = 1, kindCount do
  local name = ARGV[3 + i]
  local lane, queue, job = string.match(name, '^(%d+):([^:]*):(.*)$')
  local flags = call('HGET', named('queues'), queue)
  if flags and isLimited(flags) or not flags and call('SISMEMBER', named('limited'), job) == 1 then return { 'desk' } end
  kinds[i] = { name = name, line = lineName(lane, queue), queue = queue, pending = 0, scheduled = 0, ready = {} }
end

local handles = {}
local first = 4 + kindCount
for i = first, #ARGV, 4 do handles[#handles + 1] = ARGV[i + 1] end
local existing = ofMany('j', handles)

-- A kind that is new may turn out to have limits.
for _, kind in ipairs(kinds) do
  kind.num = kindNumber(kind.name)
  if isLimited(call('HGET', named('queues'), kind.queue)) then return { 'desk' } end
end

local seq = call('HINCRBY', root, 'seq', #handles) - #handles
local known = {}
local added, bodies = {}, {}
local laterTickets, laterHandles, laterStories = {}, {}, {}
local seen = {}
local soonest
for n, handle in ipairs(handles) do
  local at = first + (n - 1) * 4
  if existing[n] or seen[handle] then
    known[#known + 1] = n
  else
    seen[handle] = true
    local kind = kinds[tonumber(ARGV[at])]
    local due = ARGV[at + 2]
    local position = seq + n
    added[#added + 1] = handle
    bodies[#bodies + 1] = table.concat({ kind.num, position, now, ARGV[at + 3] }, ';')
    local ticket = ticketOf(position, handle)
    local dueAt = now
    if string.sub(due, 1, 1) == '+' then dueAt = now + tonumber(due)
    elseif due ~= '' then dueAt = tonumber(due) end
    if dueAt > now then
      kind.scheduled = kind.scheduled + 1
      laterTickets[#laterTickets + 1] = dueAt
      laterTickets[#laterTickets + 1] = ticket
      laterHandles[#laterHandles + 1] = handle
      laterStories[#laterStories + 1] = '10-' .. string.format('%.17g', dueAt) .. ';;;'
      if not soonest or dueAt < soonest then soonest = dueAt end
    else
      kind.pending = kind.pending + 1
      kind.ready[#kind.ready + 1] = ticket
    end
  end
end

byHash('j', added, 'HSET', function(batch, i, handle)
  batch[#batch + 1] = fieldOf(handle)
  batch[#batch + 1] = bodies[i]
end)
byHash('s', laterHandles, 'HSET', function(batch, i, handle)
  batch[#batch + 1] = fieldOf(handle)
  batch[#batch + 1] = laterStories[i]
end)
inParts(laterTickets, 1000, 'ZADD', named('state:1'))
for _, kind in ipairs(kinds) do
  inParts(kind.ready, 1000, 'RPUSH', named('line:' .. kind.line))
  count(kind.num, 'pending', kind.pending)
  count(kind.num, 'scheduled', kind.scheduled)
  count(kind.num, 'total_enqueued', kind.pending + kind.scheduled)
  if kind.pending > 0 then wake(kind.queue, kind.pending, ARGV[2]) end
end

-- Ears go by the server's own time.
if soonest then tell(ARGV[2], '!', clock('')) end

return { string.format('%.17g', now), known, soonest and string.format('%.17g', soonest) or '' }
