-- How exchange.lua claims: the lines that are claimed from, and what is taken of each.
local lines = {}
local hasGone = false

-- Those that are taken; which of them may have a story, and the positions of the parents of children that have none.
local taken, isTold, parents = {}, {}, {}

-- The position of a parent by its mark: most have the same as others.
local positions = {}

local function parentAt(mark)
  local position = positions[mark] or format('%d', tonumber(sub(mark, 1, 11), 16))
  positions[mark] = position
  return position
end

-- Takes an entry of a list.
local function takeEntry(entry)
  local ticket, mark = ticketIn(entry)
  local at = #taken + 1
  taken[at] = ticket
  if mark == '*' then isTold[at] = 'marked' elseif mark ~= '' then parents[at] = parentAt(mark) end
end

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
    line.seen = (line.seen or 0) + #ahead
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
    local head = headOf(line, math.min(want - found, 1000))
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

-- Of jobs that have to pass gates: the gate of the group, '' for none, and whether there is a story; nil for one that only the desk
-- gives out, because it is more than a number among others.
local gates = {}

local function gateIn(wait, loan)
  local kind, gated, look, gate = string.match(wait, '^%d+;(%d+);([01]);([02]);(%d*)$')
  if not kind or gated ~= (loan.name == '' and '0' or '1') then return nil end
  if loan.name ~= '' and kind ~= loan.kind then return nil end
  if gate ~= '' and not loan.grouped then return nil end
  return { num = gate, isTold = look == '2' }
end
