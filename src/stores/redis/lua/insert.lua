-- Adds plain jobs. ARGV: now, this process's ear or '', then groups of jobs that follow each other and are alike: the name of their
-- kind ('lane:queue:name'), when they are due ('' at once, '+ms' later, 'ms' at that time), how many they are, then handle and
-- the rest of the body of each.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise { now, places of those that exist }.
local now = clock(ARGV[1])
local groups, handles, rests = {}, {}, {}
local at = 3
while at <= #ARGV do
  local name = ARGV[at]
  local lane, queue, job = string.match(name, '^(%d+):([^:]*):(.*)$')
  local flags = call('HGET', named('queues'), queue)
  if flags and isLimited(flags) then return { 'desk' } end
  -- A new kind of a definition that has limits.
  if not call('HGET', named('kinds'), name) and call('SISMEMBER', named('limited'), job) == 1 then return { 'desk' } end
  local size = tonumber(ARGV[at + 2])
  groups[#groups + 1] = { name = name, line = lineName(lane, queue), queue = queue, due = ARGV[at + 1], first = #handles + 1, size = size }
  for i = at + 3, at + 1 + 2 * size, 2 do
    handles[#handles + 1] = ARGV[i]
    rests[#rests + 1] = ARGV[i + 1]
  end
  at = at + 3 + 2 * size
end

local spreads = spread(handles, 0)
local existing = ofMany('j', spreads)
local known, seen = {}, {}
for i = 1, #handles do
  if existing[i] or seen[handles[i]] then known[#known + 1] = i end
  seen[handles[i]] = true
end

local position = call('HINCRBY', root, 'seq', #handles) - #handles
local isKnown = {}
for _, i in ipairs(known) do isKnown[i] = true end
local added, bodies = #known > 0 and {} or handles, {}
local isLater = false
for _, group in ipairs(groups) do
  local kind = kindNumber(group.name)
  local dueAt = now
  if sub(group.due, 1, 1) == '+' then dueAt = now + tonumber(group.due)
  elseif group.due ~= '' then dueAt = tonumber(group.due) end
  local head, tail = kind .. ';', ';' .. format('%.17g', now) .. ';'
  local tickets, new = {}, {}
  for i = group.first, group.first + group.size - 1 do
    if not isKnown[i] then
      local seq = format('%011x', position + i)
      if #known > 0 then added[#added + 1] = handles[i] end
      bodies[#bodies + 1] = head .. seq .. tail .. rests[i]
      tickets[#tickets + 1] = seq .. handles[i]
      new[#new + 1] = handles[i]
    end
  end
  if dueAt > now then
    isLater = true
    local scored, stories, later = {}, {}, padded('10-' .. format('%.17g', dueAt)) .. ';;;'
    for i, ticket in ipairs(tickets) do
      scored[2 * i - 1] = dueAt
      scored[2 * i] = ticket
      stories[i] = later
    end
    putMany('s', spread(new, 0), stories)
    inParts(scored, 'ZADD', named('state:1'))
    count(kind, 'scheduled', #tickets)
  elseif #tickets > 0 then
    inParts(tickets, 'RPUSH', named('line:' .. group.line))
    count(kind, 'pending', #tickets)
    wake(group.queue, #tickets, ARGV[2])
  end
  count(kind, 'total_enqueued', #tickets)
end
putMany('j', #known > 0 and spread(added, 0) or spreads, bodies)

-- Ears go by the server's own time.
if isLater then tell(ARGV[2], '!', clock('')) end

return { format('%.17g', now), known }
