-- For look.lua: jobs in the order of what they are in.
-- Members of a sorted set behind a place, with their scores: those of a higher rank, or of the same one and sorting behind `member`.
local function behind(set, rank, member, size)
  local found = {}
  local skip = 0
  while #found < 2 * size do
    local page = call('ZRANGEBYSCORE', set, rank, '+inf', 'WITHSCORES', 'LIMIT', skip, size)
    for i = 1, #page, 2 do
      if #found < 2 * size and (rank == '-inf' or tonumber(page[i + 1]) > tonumber(rank) or page[i] > member) then
        found[#found + 1] = page[i]
        found[#found + 1] = page[i + 1]
      end
    end
    if #page < 2 * size then break end
    skip = skip + size
  end
  return found
end

-- Where in a list the first position behind this one is: lists are in the order of positions.
local function indexBehind(line, ticket)
  local low, high = 0, call('LLEN', line)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sub(call('LINDEX', line, middle), 1, 11) <= ticket then low = middle + 1 else high = middle end
  end
  return low
end

local function ticketsInLine(name, position, size)
  local line = named('line:' .. name)
  local after = position < 0 and '' or format('%011x', position)
  local at = after == '' and 0 or indexBehind(line, after)
  local listed = {}
  while #listed < size do
    local page = call('LRANGE', line, at, at + size - 1)
    if #page == 0 then break end
    at = at + #page
    local tickets = {}
    for i, entry in ipairs(page) do tickets[i] = ticketIn(entry) end
    local gone = ofEach(tickets, 'SMISMEMBER', named('gone'))
    for i, ticket in ipairs(tickets) do
      if gone[i] == 0 and #listed < size then listed[#listed + 1] = ticket end
    end
  end
  local back = call('ZRANGEBYLEX', named('back:' .. name), after == '' and '-' or '(' .. after .. '~', '+', 'LIMIT', 0, size)
  local tickets = {}
  local i, j = 1, 1
  while #tickets < size and (listed[i] or back[j]) do
    if listed[i] and (not back[j] or listed[i] < back[j]) then
      tickets[#tickets + 1] = listed[i]
      i = i + 1
    else
      tickets[#tickets + 1] = back[j]
      j = j + 1
    end
  end
  return tickets
end

-- Scans: jobs of a state in its order, each with its place, and 1 if there are more.
local function scanned(tickets, places, more)
  local found = {}
  for i, ticket in ipairs(tickets) do
    local job = jobOf(handleOf(ticket))
    if job then found[#found + 1] = { job, unpack(places[i]) } end
  end
  return { found, more and 1 or 0 }
end

local function scanUp(set, rank, position, _, size)
  local member = rank == '-inf' and '' or format('%011x', position) .. '~'
  local found = behind(named(set), rank, member, size + 1)
  local tickets, places = {}, {}
  for i = 1, math.min(#found, 2 * size), 2 do
    tickets[#tickets + 1] = found[i]
    places[#places + 1] = { found[i + 1], tonumber(sub(found[i], 1, 11), 16), 0 }
  end
  return scanned(tickets, places, #found > 2 * size)
end

-- From the highest rank down.
local function scanDown(set, rank, position, _, size)
  size = tonumber(size)
  local key = named(set)
  local member = position ~= '' and format('%011x', position)
  local tickets, places = {}, {}
  local skip, more = 0, false
  repeat
    local page = call('ZREVRANGEBYSCORE', key, rank, '-inf', 'WITHSCORES', 'LIMIT', skip, size + 1)
    for i = 1, #page, 2 do
      if not member or tonumber(page[i + 1]) < tonumber(rank) or page[i] < member then
        if #tickets == size then
          more = true
          break
        end
        tickets[#tickets + 1] = page[i]
        places[#places + 1] = { page[i + 1], tonumber(sub(page[i], 1, 11), 16), 0 }
      end
    end
    skip = skip + size + 1
  until more or #page < 2 * (size + 1)
  return scanned(tickets, places, more)
end

local function scanRunning(_, position, _, _, size)
  local after = position == '-inf' and '' or format('%011x', position) .. '~'
  local tickets, places = {}, {}
  local all = call('HKEYS', named('running'))
  table.sort(all)
  for _, ticket in ipairs(all) do
    if ticket > after and ticket ~= '' then
      if #tickets == tonumber(size) then return scanned(tickets, places, true) end
      tickets[#tickets + 1] = ticket
      places[#places + 1] = { tonumber(sub(ticket, 1, 11), 16), 0, 0 }
    end
  end
  return scanned(tickets, places, false)
end

-- Lines by queue and lane, then the places where jobs with limits or groups wait.
local function scanPending(only, num, second, position, size)
  num, size = num == '-inf' and -1 or tonumber(num), tonumber(size)
  local tickets, places = {}, {}
  local queues = {}
  local pairsOf = call('HGETALL', named('queues'))
  for i = 1, #pairsOf, 2 do
    if only == '' or only == pairsOf[i] then
      queues[#queues + 1] = { name = pairsOf[i], num = tonumber(string.match(pairsOf[i + 1], '^%d+')) }
    end
  end
  table.sort(queues, function(a, b) return a.num < b.num end)
  for _, queue in ipairs(queues) do
    for lane = 0, 3 do
      if queue.num > num or queue.num == num and lane >= tonumber(second) then
        local from = queue.num == num and lane == tonumber(second) and tonumber(position) or -1
        for _, ticket in ipairs(ticketsInLine(lineName(lane, queue.name), from, size + 1 - #tickets)) do
          if #tickets == size then return scanned(tickets, places, true) end
          tickets[#tickets + 1] = ticket
          places[#places + 1] = { queue.num, lane, tonumber(sub(ticket, 1, 11), 16) }
        end
      end
    end
  end
  local behindQueues = 2 ^ 32
  local waiting = {}
  for _, line in ipairs(call('HKEYS', named('lines'))) do waiting[#waiting + 1] = { at = 2 * tonumber(line), name = line } end
  for _, gate in ipairs(call('SMEMBERS', named('parked'))) do
    waiting[#waiting + 1] = { at = 2 * tonumber(gate) + 1, name = '-' .. gate }
  end
  table.sort(waiting, function(a, b) return a.at < b.at end)
  for _, place in ipairs(waiting) do
    local at = behindQueues + place.at
    if at >= num then
      local rank, member = '-inf', ''
      if at == num then rank, member = second, format('%011x', position) .. '~' end
      local found = behind(named('place:' .. place.name), rank, member, size + 1 - #tickets)
      for i = 1, #found, 2 do
        if #tickets == size then return scanned(tickets, places, true) end
        tickets[#tickets + 1] = found[i]
        places[#places + 1] = { format('%.17g', at), found[i + 1], tonumber(sub(found[i], 1, 11), 16) }
      end
    end
  end
  return scanned(tickets, places, false)
end
