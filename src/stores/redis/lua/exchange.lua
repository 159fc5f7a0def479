-- Ends plain jobs and claims plain jobs. ARGV: now, worker, this process's ear or '', the number of ends, then those: groups of
-- token, kind, retain, whether there are results, how many, the length of a ticket if they have the same, and then all of them as one
-- text; then the results; then, if jobs are asked for: token, lease in ms, shared slots, slots of each of the four lanes, whether the
-- claim is a lasting one, the definitions that the worker has as a line each ('*' for all, '' if no queue is known to have limits),
-- and for each pick: queue, lane, take.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise
-- { now, { places of ends that were lost }, { kind, name … }, tickets, bodies, { stories, '' for none }, waits, gates }; tickets are one
-- text, and bodies are where they are not large; `waits` is 1 when nothing is left for any slot and whoever adds a job wakes this process;
-- `gates` are those of the jobs' groups, as a line each, if any job has one. `now` is 0 where nothing happened.
local now = ARGV[4] ~= '0' and clock(ARGV[1]) or 0
local worker, ear = ARGV[2], ARGV[3]
local at = 4

local function nextArg()
  at = at + 1
  return ARGV[at - 1]
end

-- First everything is looked at, so that nothing has been written if it is for the desk.
local running = named('running')
local groups = {}
local lost = {}
local endCount = tonumber(nextArg())
local ended = 0
while ended < endCount do
  local group = { token = nextArg(), kind = nextArg(), retain = tonumber(nextArg()), results = tonumber(nextArg()) }
  local size = tonumber(nextArg())
  local length = tonumber(nextArg())
  local given = {}
  if length > 0 then
    local text = nextArg()
    if #text ~= size * length then return { 'desk' } end
    given = ticketsIn(text, length)
  else
    for i = 1, size do given[i] = nextArg() end
  end
  local loan = loanForEnds(group.kind)
  if loan == false then return { 'desk' } end
  local token = group.token
  local isOwn = call('HGET', named('l:' .. token), 'worker') == worker
  local tickets, held = {}, 0
  local marks, notes, hasTeam = {}, {}, false
  if group.results > 0 and group.retain > 0 then group.resultAt = {} end
  for from = 1, size, 2000 do
    local tokens = call('HMGET', running, unpack(given, from, math.min(from + 1999, size)))
    for i = 1, #tokens do
      local place = from + i - 1
      local found = isOwn and tokens[i]
      local mark, told = '', nil
      if found ~= token then mark, told = noteOf(found, token, marks, notes) end
      if mark == '*' then return { 'desk' } end
      if mark then
        held = held + 1
        tickets[held] = given[place]
        if group.resultAt then group.resultAt[held] = ARGV[at + place - 1] end
        if mark == '~' then
          endedIn[told] = (endedIn[told] or 0) + 1
          hasTeam = true
        elseif mark == '+' then
          childEnds(told, given[place], group.results > 0 and ARGV[at + place - 1] or '')
        end
      else
        lost[#lost + 1] = ended + place
      end
    end
  end
  group.tickets = tickets
  if hasTeam and not (loan and loan.grouped) then return { 'desk' } end
  if loan and held > 0 then
    loan.isTold = true
    loan.ended = loan.ended + held
    loan.over = (loan.over or 0) + held
    if loan.refills then loan.left = loan.left + held end
  end
  if group.results > 0 then at = at + size end
  ended = ended + size
  groups[#groups + 1] = group
end

-- Gates that are more than tallies the desk has to tell.
if not areTallied(endedIn) then return { 'desk' } end
-- Whoever has the desk for itself may be counting children.
if next(noted) and not isFreeFor('') then return { 'desk' } end
for parent, family in pairs(noted) do
  if not noteEnds(parent, family, now) then return { 'desk' } end
end

local token = ARGV[at]
local lease, shared, isLasting, known, nextDue

-- Whether the worker has the definition whose limits a line has.
local function knows(name)
  return name == '' or known == '*' or string.find('\n' .. known .. '\n', '\n' .. name .. '\n', 1, true)
end

local own, picks, queues = {}, {}, {}
if token then
  at = at + 1
  lease = tonumber(nextArg())
  shared = tonumber(nextArg())
  for lane = 0, 3 do own[lane] = tonumber(nextArg()) end
  isLasting = nextArg() == '1'
  known = nextArg()
  local place, keys, plain = {}, { named('l:' .. token) }, {}
  while at <= #ARGV do
    local pick = { queue = nextArg(), lane = tonumber(nextArg()), take = tonumber(nextArg()) }
    pick.line = lineName(pick.lane, pick.queue)
    picks[#picks + 1] = pick
    if not place[pick.queue] then
      queues[#queues + 1] = pick.queue
      place[pick.queue] = #queues
    end
  end
  local flags = #queues > 0 and call('HMGET', named('queues'), unpack(queues)) or {}
  for _, pick in ipairs(picks) do
    local flag = flags[place[pick.queue]]
    local lists = { named('line:' .. pick.line), named('back:' .. pick.line) }
    pick.isEmpty = not flag or isPaused(flag)
    if flag and isLimited(flag) then
      pick.loan = loanOf(pick.queue)
      if not pick.loan then return { 'desk' } end
      local set = named('place:' .. pick.loan.place)
      if pick.loan.place ~= '0' and pick.lane == pick.loan.lane and call('EXISTS', set) == 1 then pick.place = set end
      if pick.loan.name ~= '' or pick.place then
        for _, list in ipairs(lists) do plain[#plain + 1] = list end
        if pick.place and not knows(pick.loan.name) then return { 'desk' } end
        pick.isEmpty = pick.isEmpty or not pick.place
        lists = { pick.place }
      end
    end
    for _, list in ipairs(lists) do keys[#keys + 1] = list end
  end
  -- Lines take turns where there are several, which the desk does.
  if #plain > 0 and call('EXISTS', unpack(plain)) > 0 then return { 'desk' } end
  -- Parked jobs whose gates are due stand in line again first, which the desk sees to.
  if next(loans) then
    nextDue = call('ZRANGE', named('gatedue'), 0, 0, 'WITHSCORES')[2]
    if nextDue then
      if now == 0 then now = clock(ARGV[1]) end
      if tonumber(nextDue) <= now then return { 'desk' } end
    end
  end
  -- Most who ask for jobs again and again find none, and have none of this claim already.
  if call('EXISTS', unpack(keys)) == 0 then
    for _, pick in ipairs(picks) do pick.isEmpty = true end
  elseif call('EXISTS', keys[1]) == 1 or call('HGET', named('latest'), worker) == token then
    return { 'desk' }
  end
end

for _, pick in ipairs(picks) do
  if not pick.isEmpty then
    hasGone = call('EXISTS', named('gone')) == 1
    break
  end
end

if token then
  for pass = 1, 2 do
    for _, pick in ipairs(picks) do
      local mine = own[pick.lane]
      local want = shared + mine
      if pass == 1 then want = math.min(want, pick.take) end
      if not pick.isEmpty and want > 0 then
        -- One more than there may be is for the desk, which knows when there is room for it.
        local most = pick.loan and math.min(want, pick.loan.left + 1) or want
        local found = take(pick, most)
        if pick.loan then
          if found > pick.loan.left then return { 'desk' } end
          pick.loan.left = pick.loan.left - found
          pick.loan.begun = pick.loan.begun + found
          pick.loan.isTold = pick.loan.isTold or found > 0
          pick.loan.new = (pick.loan.new or 0) + found
        end
        if found < want then pick.isEmpty = true end
        own[pick.lane] = mine - math.min(found, mine)
        shared = shared - math.max(0, found - mine)
      end
    end
  end
end

-- Who is to come back when a gate opens is told so.
if nextDue and shared > 0 then return { 'desk' } end

local bodies = #taken > 0 and ofMany('j', spread(taken, 11)) or {}
for i = 1, #taken do
  if not bodies[i] then return { 'desk' } end
end

for _, found in pairs(placed) do
  local known = {}
  for first = 1, #found.tickets, 2000 do
    local waits = call('HMGET', named('waits'), unpack(found.tickets, first, math.min(first + 1999, #found.tickets)))
    for i = 1, #waits do
      local wait = waits[i] or ''
      local gate = known[wait] or gateIn(wait, found.loan)
      if not gate then return { 'desk' } end
      known[wait] = gate
      local place = found.places[first + i - 1]
      if gate.isTold then isTold[place] = true end
      if gate.num ~= '' then
        gates[place] = gate.num
        takenIn[gate.num] = (takenIn[gate.num] or 0) + 1
      end
    end
  end
end

local stories = {}
local hasPasts = false
if next(isTold) then
  local tickets, places = {}, {}
  for i = 1, #taken do
    if isTold[i] then
      tickets[#tickets + 1] = taken[i]
      places[#places + 1] = i
    end
  end
  local found = ofMany('s', spread(tickets, 11))
  for k, i in ipairs(places) do
    local story = found[k] or ''
    -- The second letter: only the desk may give it to a worker.
    if sub(story, 2, 2) == '1' then return { 'desk' } end
    if not gates[i] then parents[i] = parentIn(bodies[i]) end
    if isTold[i] == 'marked' and (not parents[i] or string.find(bodies[i], '"traffic":', 1, true)) then return { 'desk' } end
    if hasPast(story) then
      stories[i] = story
      hasPasts = true
    end
  end
end
if not areTallied(takenIn) then return { 'desk' } end
-- Those whose definition got limits while they waited are to go to its line.
local isFree = {}
for _, pick in ipairs(picks) do
  if pick.loan and pick.loan.name == '' and pick.loan.new then
    for i = 1, #bodies do
      local kind = string.match(bodies[i], '^%d+')
      if not isFree[kind] then
        if isLimitedJob(string.match(call('HGET', named('kindnames'), kind), '[^:]*$')) then return { 'desk' } end
        isFree[kind] = true
      end
    end
    break
  end
end

-- Now it is written.
if #taken > 0 and now == 0 then now = clock(ARGV[1]) end
for _, group in ipairs(groups) do
  local size = #group.tickets
  if size > 0 then
    complete(group.token, group.tickets, group.retain, now, group.resultAt)
    leaseDone(worker, group.token, size)
    count(group.kind, 'running', -size)
    count(group.kind, 'total_completed', size)
    if group.retain > 0 then count(group.kind, 'completed', size) end
  end
end
for parent, family in pairs(noted) do
  inParts(family.links, 'HSET', named('link:' .. parent))
  call('HSET', named('parents'), parent, family.row)
end

for _, found in pairs(placed) do
  local size = #found.tickets
  if size > 0 then
    local served = tonumber(call('ZSCORE', found.place, found.tickets[size]))
    found.loan.served = math.max(found.loan.served, served)
    call('ZREMRANGEBYRANK', found.place, 0, size - 1)
    inParts(found.tickets, 'HDEL', named('waits'))
  end
end
for num, by in pairs(endedIn) do tallies[num].running = math.max(0, tallies[num].running - by) end
for num, by in pairs(takenIn) do
  tallies[num].pending = tallies[num].pending - by
  tallies[num].running = tallies[num].running + by
end
if next(tallies) then keepTallies(tallies) end

local kindNames = {}
local tickets = table.concat(taken, '\n')
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
        inParts(tickets, 'SREM', named('gone'))
      end
    end
    inParts(line.takenBack, 'ZREM', named('back:' .. line.name))
  end
  local held = {}
  for i = 1, #taken do
    held[2 * i - 1] = taken[i]
    held[2 * i] = token
  end
  local ofParent, ofGate = {}, {}
  for i, parent in pairs(parents) do
    ofParent[parent] = ofParent[parent] or token .. '+' .. parent
    held[2 * i] = ofParent[parent]
  end
  for i, gate in pairs(gates) do
    ofGate[gate] = ofGate[gate] or token .. '~' .. gate
    held[2 * i] = ofGate[gate]
  end
  inParts(held, 'HSET', asTable('running'))
  startLease(worker, token, lease, #taken, tickets, now)
  call('HSET', named('latest'), worker, token)
  local kinds = {}
  -- Most are of the same kind as the one before.
  local last, length, size = '', 0, 0
  for i = 1, #taken do
    if sub(bodies[i], 1, length) ~= last or length == 0 then
      kinds[last] = (kinds[last] or 0) + size
      last, size = string.match(bodies[i], '^%d+;'), 0
      length = #last
    end
    size = size + 1
  end
  kinds[last] = (kinds[last] or 0) + size
  kinds[''] = nil
  for prefix, size in pairs(kinds) do
    local kind = sub(prefix, 1, -2)
    count(kind, 'pending', -size)
    count(kind, 'running', size)
    kindNames[#kindNames + 1] = kind
    kindNames[#kindNames + 1] = call('HGET', named('kindnames'), kind)
  end
end

for _, loan in pairs(loans) do
  if loan and loan.isTold then
    if loan.timed then
      loan.log = loan.log .. table.concat({ format('%.17g', now), loan.new or 0, loan.over or 0 }, ':') .. ','
    end
    keepLoan(loan)
  end
end

-- Who has room left waits to be woken. Who found nothing may leave its claim behind besides, so that jobs are given to it as they are
-- added; see insert.lua. A full server has no room for that, and then it has to find out by itself.
local waits = 0
if token and ear ~= '' then
  if shared > 0 then
    waits = 1
    for _, queue in ipairs(queues) do
      if type(redis.pcall('SADD', named('idle:' .. queue), ear)) == 'table' then waits = 0 end
    end
  end
  if waits == 1 and isLasting and #taken == 0 then
    local asked = {}
    for i, pick in ipairs(picks) do asked[i] = pick.line .. '\n' end
    redis.pcall('HSET', named('offers'), ear, worker .. '\n' .. token .. '\n' .. lease .. '\n' .. shared .. '\n' .. table.concat(asked))
  else
    call('HDEL', named('offers'), ear)
  end
end

local told = {}
if hasPasts then
  for i = 1, #taken do told[i] = stories[i] or '' end
end
if next(takenIn) then
  for i = 1, #taken do gates[i] = gates[i] or '' end
end
-- Between them stands what is in no body. Whoever still has one of a text keeps all of it in memory.
local size = 0
for i = 1, #bodies do size = size + #bodies[i] end

return { format('%.17g', now), lost, kindNames, tickets, size <= 262144 and table.concat(bodies, '\30') or bodies, told, waits, table.concat(gates, '\n') }
