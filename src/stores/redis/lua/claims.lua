-- Claims, for exchange.lua: what is asked for, what is looked at, what is taken, and what is written.

-- The tickets of jobs that are taken. By their places among these: which may have a story, the positions of the parents of children that
-- have none, the gates of groups, and stories that a worker is to be told.
local taken, isTold, parents, gates, stories = {}, {}, {}, {}, {}

-- Jobs of groups that start, by the numbers of their gates.
local takenIn = {}

-- Undefined if nothing is asked for. `own` are slots that only a lane may use.
local function readClaim(at)
  local token = ARGV[at]
  if not token then return nil end
  local claim = { token = token, lease = tonumber(ARGV[at + 1]), shared = tonumber(ARGV[at + 2]), own = {}, picks = {}, queues = {} }
  for lane = 0, 3 do claim.own[lane] = tonumber(ARGV[at + 3 + lane]) end
  claim.isLasting, claim.known = ARGV[at + 7] == '1', ARGV[at + 8]
  local seen = {}
  for i = at + 9, #ARGV, 3 do
    local queue, lane = ARGV[i], tonumber(ARGV[i + 1])
    claim.picks[#claim.picks + 1] = { queue = queue, lane = lane, take = tonumber(ARGV[i + 2]), line = lineName(lane, queue) }
    if not seen[queue] then claim.queues[#claim.queues + 1] = queue end
    seen[queue] = true
  end
  return claim
end

local function flagsOf(queues)
  local flags = {}
  local found = allOf('queues', queues)
  for i, queue in ipairs(queues) do flags[queue] = found[i] end
  return flags
end

-- Whether the worker has the definition whose limits a line has.
local function knows(known, name)
  return name == '' or known == '*' or string.find('\n' .. known .. '\n', '\n' .. name .. '\n', 1, true)
end

-- What jobs of a pick are in. If its queue has limits, they may be in a place, by a loan, and `plain` gets what is to be empty then.
-- Nil if only the desk can tell.
local function keysOf(pick, known, plain)
  local lists = { named('line:' .. pick.line), named('back:' .. pick.line) }
  if not pick.isLimited then return lists end
  local loan = loanOf(pick.queue)
  if not loan then return nil end
  local set = named('place:' .. loan.place)
  pick.loan = loan
  if loan.place ~= '0' and pick.lane == loan.lane and call('EXISTS', set) == 1 then pick.place = set end
  if loan.name == '' and not pick.place then return lists end
  for _, list in ipairs(lists) do plain[#plain + 1] = list end
  if not pick.place then
    pick.isEmpty = true
    return {}
  end
  return knows(known, loan.name) and { pick.place } or nil
end

-- Parked jobs whose gates are due stand in line again first, which the desk sees to.
local function nextDue()
  return next(loans) and call('ZRANGE', named('gatedue'), 0, 0, 'WITHSCORES')[2]
end

-- Whether what is asked for can be given here, as far as it is known before anything is taken.
local function lookAtPicks(claim, worker, now)
  local flags = flagsOf(claim.queues)
  local keys, plain = { named('l:' .. claim.token) }, {}
  for _, pick in ipairs(claim.picks) do
    local flag = flags[pick.queue]
    pick.isEmpty, pick.isLimited = not flag or isPaused(flag), flag and isLimited(flag)
    local lists = keysOf(pick, claim.known, plain)
    if not lists then return false end
    for _, list in ipairs(lists) do keys[#keys + 1] = list end
  end
  -- Lines take turns where there are several, which the desk does.
  if anyExists(plain) then return false end
  claim.nextDue = nextDue()
  if claim.nextDue and tonumber(claim.nextDue) <= (now > 0 and now or clock(ARGV[1])) then return false end
  -- Most who ask for jobs again and again find none, and have none of this claim already.
  if not anyExists(keys) then
    for _, pick in ipairs(claim.picks) do pick.isEmpty = true end
    return true
  end
  return call('EXISTS', keys[1]) == 0 and call('HGET', named('latest'), worker) ~= claim.token
end

-- The lines that are claimed from, and whether any job is to be skipped.
local lines = {}
local hasGone = false

-- The position of a parent by its mark: most have the same as others.
local positions = {}

local function parentBy(mark)
  local position = positions[mark] or format('%d', tonumber(sub(mark, 1, 11), 16))
  positions[mark] = position
  return position
end

-- Takes an entry of a list.
local function takeEntry(entry)
  local ticket, mark = ticketIn(entry)
  local at = #taken + 1
  taken[at] = ticket
  if mark == '*' then isTold[at] = 'marked' elseif mark ~= '' then parents[at] = parentBy(mark) end
end

local function lineAt(name)
  local line = lines[name]
  if not line then
    local back = call('ZRANGE', named('back:' .. name), 0, 999)
    line = { name = name, at = 0, ahead = {}, next = 1, back = back, nextBack = 1, takenBack = {} }
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
      for i, entry in ipairs(found) do tickets[i] = ticketIn(entry) end
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
  end
  while line.ahead[line.next] and not line.ahead[line.next].entry do line.next = line.next + 1 end
  if line.next > #line.ahead then
    if line.isDrained then return nil end
    return headOf(line, want)
  end
  return line.ahead[line.next].entry
end

-- Where nobody is gone and nobody has come back, the heads of the list are what is next.
local function takeHeads(line, want)
  local heads = call('LRANGE', named('line:' .. line.name), line.at, line.at + want - 1)
  line.at = line.at + #heads
  -- Most are of jobs of which there is no more to tell: then this is all of them.
  local isMarked = false
  for i = 1, #heads do
    local mark = byte(heads[i], -1)
    isMarked = isMarked or mark == 42 or mark == 126
  end
  if not isMarked and #taken == 0 then taken = heads else for i = 1, #heads do takeEntry(heads[i]) end end
  return #heads
end

-- The first ones of the line of a definition that has limits.
local placed = {}

local function takePlaced(pick, want)
  local found = placed[pick] or { tickets = {}, places = {}, loan = pick.loan, place = pick.place }
  placed[pick] = found
  local at = #found.tickets
  local heads = call('ZRANGE', pick.place, at, at + want - 1)
  for i = 1, #heads do
    found.tickets[at + i] = heads[i]
    taken[#taken + 1] = heads[i]
    found.places[at + i] = #taken
  end
  return #heads
end

local function take(pick, want)
  if pick.place then return takePlaced(pick, want) end
  local line = lineAt(pick.line)
  if not hasGone and #line.back == 0 then return takeHeads(line, want) end
  local found = 0
  while found < want do
    local head = headOf(line, math.min(want - found, partSize))
    local back = line.back[line.nextBack]
    if back and (not head or back < head) then
      line.nextBack = line.nextBack + 1
      line.takenBack[#line.takenBack + 1] = back
      taken[#taken + 1] = back
      isTold[#taken] = true
    elseif head then
      line.next = line.next + 1
      takeEntry(head)
    else
      break
    end
    found = found + 1
  end
  return found
end

local function startOnLoan(loan, size)
  loan.left = loan.left - size
  loan.begun = loan.begun + size
  loan.isTold = loan.isTold or size > 0
  loan.new = (loan.new or 0) + size
end

-- Up to what each pick may have, and then what is left to any. False if limits have to be asked.
local function takePicks(claim)
  for _, pick in ipairs(claim.picks) do
    if not pick.isEmpty then
      hasGone = call('EXISTS', named('gone')) == 1
      break
    end
  end
  local own = claim.own
  for pass = 1, 2 do
    for _, pick in ipairs(claim.picks) do
      local mine, loan = own[pick.lane], pick.loan
      local want = claim.shared + mine
      if pass == 1 then want = math.min(want, pick.take) end
      if not pick.isEmpty and want > 0 then
        -- One more than there may be is for the desk, which knows when there is room for it.
        local found = take(pick, loan and math.min(want, loan.left + 1) or want)
        if loan then
          if found > loan.left then return false end
          startOnLoan(loan, found)
        end
        if found < want then pick.isEmpty = true end
        own[pick.lane] = mine - math.min(found, mine)
        claim.shared = claim.shared - math.max(0, found - mine)
      end
    end
  end
  -- Who is to come back when a gate opens is told so.
  return not (claim.nextDue and claim.shared > 0)
end

-- Of jobs that have to pass gates: the gate of the group, '' for none, and whether there is a story; nil for one that only the desk
-- gives out, because it is more than a number among others.
local function gateIn(wait, loan)
  local kind, gated, look, gate = string.match(wait, '^%d+;(%d+);([01]);([02]);(%d*)$')
  if not kind or gated ~= (loan.name == '' and '0' or '1') then return nil end
  if loan.name ~= '' and kind ~= loan.kind then return nil end
  if gate ~= '' and not loan.grouped then return nil end
  return { num = gate, isTold = look == '2' }
end

local function lookAtPlaced(found)
  local known = {}
  local waits = allOf('waits', found.tickets)
  for i = 1, #waits do
    local wait = waits[i] or ''
    local gate = known[wait] or gateIn(wait, found.loan)
    if not gate then return false end
    known[wait] = gate
    local place = found.places[i]
    if gate.isTold then isTold[place] = true end
    if gate.num ~= '' then
      gates[place] = gate.num
      takenIn[gate.num] = (takenIn[gate.num] or 0) + 1
    end
  end
  return true
end

local function lookAtStories(bodies)
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
    if sub(story, 2, 2) == '1' then return false end
    if not gates[i] then parents[i] = parentIn(bodies[i]) end
    if isTold[i] == 'marked' and (not parents[i] or string.find(bodies[i], '"traffic":', 1, true)) then return false end
    if hasPast(story) then stories[i] = story end
  end
  return true
end

-- Jobs whose definition got limits while they waited are to go to its line.
local function areFree(bodies)
  local isFree = {}
  for i = 1, #bodies do
    local kind = string.match(bodies[i], '^%d+')
    if not isFree[kind] then
      if isLimitedJob(string.match(call('HGET', named('kindnames'), kind), '[^:]*$')) then return false end
      isFree[kind] = true
    end
  end
  return true
end

-- Whether any came by a loan of what a queue as a whole may start.
local function comeByLoanOfQueue(claim)
  for _, pick in ipairs(claim.picks) do
    if pick.loan and pick.loan.name == '' and pick.loan.new then return true end
  end
  return false
end

-- The bodies of what was taken; nil if only the desk may give one of these out.
local function lookAtTaken(claim)
  if #taken == 0 then return {} end
  local bodies = ofMany('j', spread(taken, 11))
  for i = 1, #taken do
    if not bodies[i] then return nil end
  end
  for _, found in pairs(placed) do
    if not lookAtPlaced(found) then return nil end
  end
  if next(isTold) and not lookAtStories(bodies) then return nil end
  if not areTallies(takenIn) then return nil end
  if comeByLoanOfQueue(claim) and not areFree(bodies) then return nil end
  return bodies
end

-- They wait in their places no longer.
local function leavePlaces()
  for _, found in pairs(placed) do
    local size = #found.tickets
    if size > 0 then
      local served = tonumber(call('ZSCORE', found.place, found.tickets[size]))
      found.loan.served = math.max(found.loan.served, served)
      call('ZREMRANGEBYRANK', found.place, 0, size - 1)
      inParts(found.tickets, 'HDEL', named('waits'))
    end
  end
end

-- What was looked at and not taken stays; what is gone and stands before it goes.
local function leaveLines()
  for _, line in pairs(lines) do
    local passed = line.at - (#line.ahead - line.next + 1)
    if passed > 0 then call('LPOP', named('line:' .. line.name), passed) end
    if line.gone then
      local over = #line.gone
      for i = line.next, #line.ahead do
        if not line.ahead[i].entry then over = over - 1 end
      end
      local tickets = {}
      for i = 1, over do tickets[i] = line.gone[i] end
      inParts(tickets, 'SREM', named('gone'))
    end
    inParts(line.takenBack, 'ZREM', named('back:' .. line.name))
  end
end

-- With what is told of their ends behind the token; see claimIn.
local function writeRunning(token)
  local tickets, held = taken, {}
  for i = 1, #tickets do
    held[2 * i - 1] = tickets[i]
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
end

-- How many there are of each kind.
local function kindsIn(bodies)
  local kinds = {}
  -- Most are of the same kind as the one before.
  local last, length, size = '', 0, 0
  for i = 1, #bodies do
    if sub(bodies[i], 1, length) ~= last or length == 0 then
      kinds[last] = (kinds[last] or 0) + size
      last, size = string.match(bodies[i], '^%d+;'), 0
      length = #last
    end
    size = size + 1
  end
  kinds[last] = (kinds[last] or 0) + size
  kinds[''] = nil
  return kinds
end

-- What was taken is the worker's own. Answers the kinds with their names, and the tickets as a line each.
local function writeClaim(claim, worker, bodies, now)
  if #taken == 0 then return {}, '' end
  local tickets = table.concat(taken, '\n')
  leaveLines()
  writeRunning(claim.token)
  startLease(worker, claim.token, claim.lease, #taken, tickets, now)
  call('HSET', named('latest'), worker, claim.token)
  local kindNames = {}
  for prefix, size in pairs(kindsIn(bodies)) do
    local kind = sub(prefix, 1, -2)
    count(kind, 'pending', -size)
    count(kind, 'running', size)
    kindNames[#kindNames + 1] = kind
    kindNames[#kindNames + 1] = call('HGET', named('kindnames'), kind)
  end
  return kindNames, tickets
end

-- Who has room left waits to be woken. Who found nothing may leave its claim behind besides, so that jobs are given to it as they are
-- added; see giving.lua. A full server has no room for that, and then it has to find out by itself. Answers 1 for one that waits.
local function waitForMore(claim, worker, ear)
  if ear == '' then return 0 end
  local waits = 0
  if claim.shared > 0 then
    waits = 1
    for _, queue in ipairs(claim.queues) do
      if type(redis.pcall('SADD', named('idle:' .. queue), ear)) == 'table' then waits = 0 end
    end
  end
  if waits == 1 and claim.isLasting and #taken == 0 then
    local asked = {}
    for i, pick in ipairs(claim.picks) do asked[i] = pick.line .. '\n' end
    local offer = { worker, claim.token, claim.lease, claim.shared, table.concat(asked) }
    redis.pcall('HSET', named('offers'), ear, table.concat(offer, '\n'))
  else
    call('HDEL', named('offers'), ear)
  end
  return waits
end

-- For each that was taken, '' where there is none; nothing if none has one.
local function forEach(some)
  if not next(some) then return some end
  local all = {}
  for i = 1, #taken do all[i] = some[i] or '' end
  return all
end
