-- Ends, for exchange.lua: what is given of them, what is looked at, and what is written.

-- Jobs of groups that end, by the numbers of their gates, and ends of children, by the positions of their parents.
local endedIn, noted = {}, {}

-- Groups of ends that have token and kind in common, and where what follows them begins. Nil if not all tickets of one text have the
-- length that they are said to have. `resultsAt`: where their results begin, if there are any.
local function readEnds(at)
  local groups, total, read = {}, tonumber(ARGV[at]), 0
  at = at + 1
  while read < total do
    local group = { token = ARGV[at], kind = ARGV[at + 1], retain = tonumber(ARGV[at + 2]), first = read + 1 }
    local hasResults, size, length = ARGV[at + 3] ~= '0', tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
    at = at + 6
    if length > 0 then
      if #ARGV[at] ~= size * length then return nil end
      group.given = ticketsIn(ARGV[at], length)
      at = at + 1
    else
      group.given = {}
      for i = 1, size do group.given[i] = ARGV[at + i - 1] end
      at = at + size
    end
    if hasResults then
      group.resultsAt = at
      at = at + size
    end
    groups[#groups + 1] = group
    read = read + size
  end
  return groups, at
end

-- The loan that ends of a kind are told: nil if they mean nothing to limits, false if only the desk can tell these.
local function loanForEnds(kind)
  local queue, job = string.match(call('HGET', named('kindnames'), kind) or '', '^%d+:([^:]*):(.*)$')
  if not isLimited(call('HGET', named('queues'), queue or '') or '') then return nil end
  local loan = loanOf(queue)
  if not loan then return false end
  if loan.name == '' then return not isLimitedJob(job) and loan end
  return loan.kind == kind and loan
end

local function endOnLoan(loan, size)
  loan.isTold = true
  loan.ended = loan.ended + size
  loan.over = (loan.over or 0) + size
  if loan.refills then loan.left = loan.left + size end
end

local function noteChild(parent, ticket, result)
  local family = noted[parent]
  if not family then
    family = { ids = {}, results = {}, links = {} }
    noted[parent] = family
  end
  family.ids[#family.ids + 1] = idIn(ticket)
  family.results[#family.ids] = result
end

-- What `running` has of a job behind the token, in two parts: most of a claim have the same as others. Nil if it is not under that.
local function noteOf(found, token, marks, told)
  local mark = marks[found]
  if mark == nil then
    mark = found and sub(found, 1, #token) == token and string.match(found, '^[*+~]', #token + 1) or false
    marks[found] = mark
    told[found] = mark and sub(found, #token + 2)
  end
  return mark or nil, told[found]
end

-- Which of a group's jobs the worker still has, with their results if these are kept. The places of others go to `lost`.
local function lookAtGroup(group, worker, lost)
  local loan = loanForEnds(group.kind)
  if loan == false then return false end
  local token, given, resultsAt = group.token, group.given, group.resultsAt
  local isOwn = call('HGET', named('l:' .. token), 'worker') == worker
  local tickets, held = {}, 0
  local results = resultsAt and group.retain > 0 and {} or nil
  local marks, notes, hasTeam = {}, {}, false
  local running, size, before = named('running'), #given, group.first - 1
  -- In parts, but for the sake of speed not by allOf: nothing else is done for as many.
  for from = 1, size, partSize do
    local tokens = call('HMGET', running, unpack(given, from, math.min(from + partSize - 1, size)))
    for i = 1, #tokens do
      local place = from + i - 1
      local found = isOwn and tokens[i]
      local mark, told = '', nil
      if found ~= token then mark, told = noteOf(found, token, marks, notes) end
      if mark == '*' then return false end
      if mark then
        held = held + 1
        tickets[held] = given[place]
        if results then results[held] = ARGV[resultsAt + place - 1] end
        if mark == '~' then
          endedIn[told] = (endedIn[told] or 0) + 1
          hasTeam = true
        elseif mark == '+' then
          noteChild(told, given[place], resultsAt and ARGV[resultsAt + place - 1] or '')
        end
      else
        lost[#lost + 1] = before + place
      end
    end
  end
  group.tickets, group.results = tickets, results
  if hasTeam and not (loan and loan.grouped) then return false end
  if loan and held > 0 then endOnLoan(loan, held) end
  return true
end

-- How the links to children are to be written (see link-text.ts), and what is kept of their parent. False if only the desk can: it was
-- the last one, or something else is unusual.
local function lookAtFamily(parent, family, now)
  local waiting, rest = string.match(call('HGET', named('parents'), parent) or '', '^%[(%d+)(,.*)$')
  if not waiting or tonumber(waiting) <= #family.ids then return false end
  family.row = '[' .. format('%d', waiting - #family.ids) .. rest
  local ended = format('%.17g', now)
  -- Most are alike.
  local lastRow, lastText
  local rows = allOf('link:' .. parent, family.ids)
  for i = 1, #rows do
    local row, result = rows[i], family.results[i]
    -- It begins with its end, if there is one.
    if not row or byte(row) ~= 59 then return false end
    if row ~= lastRow then lastRow, lastText = row, ended .. row end
    family.links[2 * i - 1] = family.ids[i]
    family.links[2 * i] = result == '' and lastText or lastText .. '\n' .. result
  end
  return true
end

-- The places of ends that were lost; nil if these are for the desk.
local function lookAtEnds(groups, worker, now)
  local lost = {}
  for _, group in ipairs(groups) do
    if not lookAtGroup(group, worker, lost) then return nil end
  end
  -- Gates that are more than tallies the desk has to tell.
  if not areTallies(endedIn) then return nil end
  -- Whoever has the desk for itself may be counting children.
  if next(noted) and not isFreeFor('') then return nil end
  for parent, family in pairs(noted) do
    if not lookAtFamily(parent, family, now) then return nil end
  end
  return lost
end

local function writeEnds(groups, worker, now)
  for _, group in ipairs(groups) do
    local size = #group.tickets
    if size > 0 then
      complete(group.token, group.tickets, group.retain, now, group.results)
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
end
