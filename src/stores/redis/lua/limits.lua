-- What the desk has lent of the limits of a queue, so that starts and ends need not be told it one by one; see loans.ts. Undefined
-- where nothing is lent.
local loanFields = {
  'open', 'name', 'lane', 'place', 'kind', 'left', 'refills', 'timed', 'full', 'begun', 'ended', 'tag', 'served', 'log', 'grouped',
}

local function loanAt(queue)
  local found = call('HMGET', named('loan:' .. queue), unpack(loanFields))
  -- What is written down of starts is to be told before it gets long.
  if found[1] ~= '1' or #found[14] > 8000 then return nil end
  local loan = { queue = queue, name = found[2], lane = tonumber(found[3]), place = found[4], kind = found[5] }
  loan.refills, loan.timed, loan.full, loan.log = found[7] == '1', found[8] == '1', found[9] == '1', found[14]
  loan.left, loan.begun, loan.ended = tonumber(found[6]), tonumber(found[10]), tonumber(found[11])
  loan.tag, loan.served, loan.grouped = tonumber(found[12]), tonumber(found[13]), found[15] == '1'
  return loan
end

-- Those that were looked at by this script, by their queues; false for none.
local loans = {}

local function loanOf(queue)
  if loans[queue] == nil then loans[queue] = loanAt(queue) or false end
  return loans[queue]
end

local function keepLoan(loan)
  local numbers = { left = loan.left, begun = loan.begun, ended = loan.ended, tag = loan.tag, served = loan.served }
  local fields = { 'log', loan.log }
  for name, number in pairs(numbers) do
    fields[#fields + 1] = name
    fields[#fields + 1] = format('%.17g', number)
  end
  call('HSET', named('loan:' .. loan.queue), unpack(fields))
end

-- The loan that new jobs come under: false if they have to pass no limits, nil if only the desk can say where they wait.
local function loanToJoin(group)
  local isLimitedToo = group.gated or isLimitedJob(group.job)
  if not group.isLimited and not isLimitedToo and not group.isTeamed then return false end
  local loan = loanOf(group.queue)
  if not loan or loan.full or group.due ~= '' then return nil end
  if group.isTeamed and (not loan.grouped or loan.place == '0' or group.lane ~= loan.lane) then return nil end
  if loan.name == '' then return not isLimitedToo and loan or nil end
  return group.gated and loan.name == group.job and loan.kind == group.kind and loan or nil
end

-- What is known of a job that waits for a line that was lent, and for a group if it has one; see waitText in image.ts.
local function waitText(loan, kind, gate)
  return loan.place .. ';' .. kind .. ';' .. (loan.name == '' and '0' or '1') .. ';0;' .. gate
end

-- A group of which nothing is known but its jobs is a tally, by the number of its gate: how many wait and run, the tags of the last one
-- that came and of the last that came back, and the line that it waits in, as five numbers. See tallies.ts. Only while a loan says so they
-- are anybody else's than the desk's.
local tallyFormat = '>I4I4ddI4'

local function talliesOf(nums)
  local found = {}
  local texts = allOf('tallies', nums)
  for i = 1, #nums do
    if not texts[i] then return nil end
    local pending, running, tag, back, line = struct.unpack(tallyFormat, texts[i])
    local num = nums[i]
    found[num] = { num = num, pending = pending, running = running, tag = tag, back = back, line = line }
  end
  return found
end

-- Those that were looked at by this script, by the numbers of their gates.
local tallies = {}

-- Whether all of these are tallies; only their numbers are looked at.
local function areTallies(byNum)
  local nums = {}
  for num in pairs(byNum) do
    if not tallies[num] then nums[#nums + 1] = num end
  end
  local found = talliesOf(nums)
  for num, tally in pairs(found or {}) do tallies[num] = tally end
  return found ~= nil
end

-- As the desk reads it; nil if there is none.
local function tallyText(num)
  local tally = num and call('HGET', named('tallies'), num)
  if not tally then return nil end
  local numbers = format('%d;%d;%.17g;%.17g;%d', struct.unpack(tallyFormat, tally))
  return num .. ':' .. numbers .. ';' .. call('HGET', named('tallynames'), num)
end

-- Gates of a kind and of an owner are found by their numbers.
local function listGate(num, scope, owner)
  call('ZADD', named('gates:' .. scope), num, num)
  if owner ~= '' then call('ZADD', named('gates:' .. scope .. ':' .. owner), num, num) end
end

local function unlistGate(num, scope, owner)
  call('ZREM', named('gates:' .. scope), num)
  call('ZREM', named('gates:' .. scope .. ':' .. owner), num)
end

local function nameTally(num, key, owner)
  call('HSET', asTable('groups'), key, num)
  call('HSET', asTable('tallynames'), num, key)
  listGate(num, 'group', owner)
end

local function noTally(num, key)
  call('HDEL', named('tallies'), num)
  call('HDEL', named('tallynames'), num)
  call('HDEL', named('groups'), key)
end

-- The queue that a group is of.
local function ownerIn(key)
  return string.match(key, '^[^\n]*\n([^\n]*)')
end

-- The group is nobody's number any more.
local function forgetTally(num)
  local key = call('HGET', named('tallynames'), num)
  noTally(num, key)
  unlistGate(num, 'group', ownerIn(key))
end

-- Those without jobs are forgotten: whoever comes next stands behind what has been served, as if it were the first.
local function keepTallies(tallies)
  local fields = {}
  for num, tally in pairs(tallies) do
    if tally.pending + tally.running > 0 then
      fields[#fields + 1] = num
      fields[#fields + 1] = struct.pack(tallyFormat, tally.pending, tally.running, tally.tag, tally.back, tally.line)
    else
      forgetTally(num)
    end
  end
  inParts(fields, 'HSET', asTable('tallies'))
end

-- Whether the groups of all teams are tallies, or new. New ones are for the desk while somebody has it for itself: whoever gives numbers
-- away is in its way.
local function areTeamsOfTallies(teams)
  local keys, nums, unknown = {}, {}, {}
  for i, team in ipairs(teams) do keys[i] = team.key end
  local found = allOf('groups', keys)
  for i, team in ipairs(teams) do
    team.num = found[i] or nil
    if team.num then nums[team.num] = true else unknown[#unknown + 1] = team.key end
  end
  if not areTallies(nums) then return false end
  for _, team in ipairs(teams) do
    local tally = team.num and tallies[team.num]
    if tally and tally.pending > 0 and tally.line ~= team.place then return false end
  end
  if #unknown == 0 then return true end
  local records = allOf('gate', unknown)
  for i = 1, #records do
    if records[i] then return false end
  end
  return isFreeFor('')
end

local function tallyFor(team)
  local tally = team.num and tallies[team.num]
  if not tally then
    team.num = tostring(call('HINCRBY', root, 'number', 1))
    tally = { num = team.num, pending = 0, running = 0, tag = 0, back = 0 }
    tallies[team.num] = tally
    nameTally(team.num, team.key, ownerIn(team.key))
  end
  if tally.pending == 0 then tally.back, tally.line = 0, team.place end
  return tally
end

-- Jobs that have to pass gates wait in a place: their turns, and what is known of their waits.
local function putInPlace(place, scored, waits)
  inParts(scored, 'ZADD', named('place:' .. place))
  inParts(waits, 'HSET', asTable('waits'))
end

-- They stand in a line, each a turn behind the one before it of the same group; see turns.ts. `members`: their teams.
local function standIn(loan, kind, tickets, members)
  local scored, waits = {}, {}
  local alone = #members == 0 and waitText(loan, kind, '')
  for i, ticket in ipairs(tickets) do
    local team, turn = members[i], nil
    if team then
      local tally = tallyFor(team)
      turn = math.max(loan.served, tally.tag) + 1
      tally.tag = turn
      tally.pending = tally.pending + 1
      team.wait = team.wait or waitText(loan, kind, team.num)
    else
      loan.tag = math.max(loan.tag, loan.served) + 1
      turn = loan.tag
    end
    scored[2 * i - 1] = turn
    scored[2 * i] = ticket
    waits[2 * i - 1] = ticket
    waits[2 * i] = team and team.wait or alone
  end
  putInPlace(loan.place, scored, waits)
  keepLoan(loan)
end
