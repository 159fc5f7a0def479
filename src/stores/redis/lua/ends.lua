-- What exchange.lua knows of ends.
local loans = {}

local function loanOf(queue)
  if loans[queue] == nil then loans[queue] = loanAt(queue) or false end
  return loans[queue]
end

local function isLimitedJob(name)
  return call('SISMEMBER', named('limited'), name) == 1
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

-- Jobs of groups that end and that start, by the numbers of their gates.
local tallies, endedIn, takenIn = {}, {}, {}

-- Whether all of these are tallies.
local function areTallied(counts)
  local nums = {}
  for num in pairs(counts) do
    if not tallies[num] then nums[#nums + 1] = num end
  end
  local found = talliesOf(nums)
  for num, tally in pairs(found or {}) do tallies[num] = tally end
  return found ~= nil
end

-- Ends of children, by the positions of their parents.
local noted = {}

local function childEnds(parent, ticket, result)
  local family = noted[parent]
  if not family then
    family = { ids = {}, results = {}, links = {} }
    noted[parent] = family
  end
  family.ids[#family.ids + 1] = idIn(ticket)
  family.results[#family.ids] = result
end

-- How the links to them are to be written (see link-text.ts), and what is kept of their parent. False if only the desk can: it was the
-- last one, or something else is unusual.
local function noteEnds(parent, family, now)
  local waiting, rest = string.match(call('HGET', named('parents'), parent) or '', '^%[(%d+)(,.*)$')
  if not waiting or tonumber(waiting) <= #family.ids then return false end
  family.row = '[' .. format('%d', waiting - #family.ids) .. rest
  local ended = format('%.17g', now)
  -- Most are alike.
  local lastRow, lastText
  for first = 1, #family.ids, 1000 do
    local rows = call('HMGET', named('link:' .. parent), unpack(family.ids, first, math.min(first + 999, #family.ids)))
    for i = 1, #rows do
      local row, at = rows[i], first + i - 1
      -- It begins with its end, if there is one.
      if not row or byte(row) ~= 59 then return false end
      if row ~= lastRow then lastRow, lastText = row, ended .. row end
      local result = family.results[at]
      family.links[2 * at - 1] = family.ids[at]
      family.links[2 * at] = result == '' and lastText or lastText .. '\n' .. result
    end
  end
  return true
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
