-- What the desk reads. ARGV: now, the name of the last commit when the desk began to read ('' for the first time), who reads, for how
-- many ms nobody else may commit ('' for all may), then for each question its name, how many values it has, and these.
-- Answers { now, the name of the last commit, an answer for each question }. Something was committed since: MRSTALE.
local now = clock(ARGV[1])
local commit = call('HGET', root, 'commit') or 'none'
if ARGV[2] ~= '' and ARGV[2] ~= commit then return redis.error_reply('MRSTALE others have written meanwhile') end
-- A full server refuses it, and then goes on as if it had not been asked for.
if ARGV[4] ~= '' and isFreeFor(ARGV[3]) then
  redis.pcall('HSET', root, 'turn', ARGV[3] .. ';' .. format('%.17g', clock('') + tonumber(ARGV[4])))
end

-- Answers to questions by their names: to those about a few values, and to those about a list, however long it is.
local answers, answersToList = {}, {}

answersToList.fields = function(values)
  return allOf(table.remove(values, 1), values)
end

answersToList.scores = function(values)
  return ofEach(values, 'ZMSCORE', named(table.remove(values, 1)))
end

-- Those whose time is over, of a set by time.
answers.overdue = function(set, size)
  return call('ZRANGEBYSCORE', named(set), '-inf', now, 'LIMIT', 0, size)
end

-- Whether a job was here and has moved to another shard.
answersToList.stubs = function(handles)
  local found = {}
  for i, handle in ipairs(handles) do found[i] = isStub(of('j', handle)) and 1 or 0 end
  return found
end

-- What was lent to queues, and what came of it. `closes`: nothing is taken of it any more.
answersToList.loans = function(queues)
  local closes = table.remove(queues, 1)
  local loans = {}
  for i, queue in ipairs(queues) do
    local key = named('loan:' .. queue)
    loans[i] = call('HGETALL', key)
    if closes == '1' and #loans[i] > 0 then call('HDEL', key, 'open') end
  end
  return loans
end

answers.members = function(set)
  return call('SMEMBERS', named(set))
end

-- Some fields of a hash, about as many as are asked for; none only if it has none.
answers.someFields = function(hash, size)
  local fields, cursor = {}, '0'
  for _ = 1, 100 do
    local page = call('HSCAN', named(hash), cursor, 'COUNT', size)
    cursor = page[1]
    for i = 1, #page[2], 2 do fields[#fields + 1] = page[2][i] end
    if cursor == '0' or #fields >= tonumber(size) then break end
  end
  return fields
end

answers.all = function(hash)
  return call('HGETALL', named(hash))
end

-- Queues and kinds, unless they are known by this name.
answers.sheets = function(known)
  local name = call('HGET', root, 'sheets') or '0'
  if name == known then return { name } end
  return { name, call('HGETALL', named('queues')), call('HGETALL', named('kindnames')) }
end

answers.root = function(field)
  return call('HGET', root, field) or '0'
end

answersToList.jobs = function(handles)
  return jobsOf(handles)
end

answers.shelf = function(state, rank, position, size)
  local member = position == '' and '' or format('%011x', position) .. '~'
  local found = behind(named('state:' .. state), rank, member, tonumber(size))
  local handles = {}
  for i = 1, #found, 2 do handles[#handles + 1] = handleOf(found[i]) end
  return jobsOf(handles)
end

-- The name of a queue by its number.
local function queueName(num)
  local queues = call('HGETALL', named('queues'))
  for i = 2, #queues, 2 do
    if string.match(queues[i], '^%d+') == num then return queues[i - 1] end
  end
  return ''
end

answers.line = function(queue, lane, position, size)
  local handles = {}
  local tickets = ticketsInLine(lineName(lane, queueName(queue)), tonumber(position), tonumber(size))
  for i, ticket in ipairs(tickets) do handles[i] = handleOf(ticket) end
  return jobsOf(handles)
end

-- Records and tallies; see tallies.ts.
local function gateOf(num)
  local tally = tallyText(num)
  if tally then return tally end
  local key = call('HGET', named('gatenums'), num)
  return key and call('HGET', named('gate'), key)
end

local function gatesOf(nums)
  local rows = {}
  for _, num in ipairs(nums) do rows[#rows + 1] = gateOf(num) or nil end
  return rows
end

answersToList.gatesAt = function(keys)
  local rows = allOf('gate', keys)
  for i, key in ipairs(keys) do
    local num = not rows[i] and call('HGET', named('groups'), key)
    if num then rows[i] = gateOf(num) end
  end
  return rows
end

-- Numbers of the gates in what is known of waits.
local function gatesIn(waits)
  local nums, seen = {}, {}
  for _, wait in ipairs(waits) do
    if not seen[wait] then
      seen[wait] = true
      for num in string.gmatch(string.match(wait, '[^;]*$'), '%d+') do
        if not seen[num] then nums[#nums + 1] = num end
        seen[num] = true
      end
    end
  end
  return nums
end

-- Tickets, their turns and what is known of their waits, by commas, then all of the jobs that are asked for, and their gates.
answers.place = function(place, rank, position, size, isWhole)
  local member = position == '' and '' or format('%011x', position) .. '~'
  local found = behind(named('place:' .. place), rank, member, tonumber(size))
  local tickets, turns, handles = {}, {}, {}
  for i = 1, #found, 2 do
    tickets[#tickets + 1] = found[i]
    turns[#turns + 1] = found[i + 1]
  end
  local waits = allOf('waits', tickets)
  for i, ticket in ipairs(tickets) do
    if isWhole == '1' or string.match(waits[i], '^[^;]*;[^;]*;[^;]*;(%d)') == '1' then handles[#handles + 1] = handleOf(ticket) end
  end
  return { tickets, table.concat(turns, ','), table.concat(waits, ','), jobsOf(handles), gatesOf(gatesIn(waits)) }
end

-- Records behind a place; a member is a number of sixteen digits and the key of the record.
answers.records = function(set, hash, rank, number, size)
  local found = behind(named(set), rank, number == '' and '' or number .. '~', tonumber(size))
  local keys = {}
  for i = 1, #found, 2 do keys[#keys + 1] = sub(found[i], 17) end
  return allOf(hash, keys)
end

answers.waiters = function(key, number, size)
  local found = call('ZRANGEBYSCORE', named('waiter:' .. key), '(' .. number, '+inf', 'WITHSCORES', 'LIMIT', 0, size)
  local waiters = {}
  for i = 1, #found, 2 do
    local job = jobOf(handleOf(found[i]))
    if job then waiters[#waiters + 1] = { found[i + 1], job } end
  end
  return waiters
end

answersToList.workers = function(ids)
  local workers = {}
  for _, id in ipairs(ids) do
    local worker = workerOf(id)
    if worker then workers[#workers + 1] = worker end
  end
  return workers
end

answers.lapsed = function()
  local workers = {}
  for _, id in ipairs(call('ZRANGEBYSCORE', named('workers'), '-inf', now, 'LIMIT', 0, 100)) do
    workers[#workers + 1] = workerOf(id)
  end
  return workers
end

answers.held = function(token)
  local handles = {}
  for _, ticket in ipairs(heldUnder(token)) do handles[#handles + 1] = handleOf(ticket) end
  return jobsOf(handles)
end

answersToList.positionsOf = function(handles)
  local found = {}
  for i, handle in ipairs(handles) do
    local body = bodyOf(handle)
    found[i] = body and seqIn(body) or false
  end
  return found
end

-- Parents of jobs, and the links to them; values are a handle and the id of each.
answersToList.kin = function(values)
  local parents, links, seen = {}, {}, {}
  for i = 1, #values, 2 do
    for _, parent in ipairs(parentsOf(values[i])) do
      local handle = handleOfId(parent.id)
      if not seen[handle] then parents[#parents + 1] = handle end
      seen[handle] = true
      addLink(links, handle, values[i + 1])
    end
  end
  return { jobsOf(parents), links }
end

-- Links between handles of parents and ids of children.
answersToList.ties = function(values)
  local links = {}
  for i = 1, #values, 2 do addLink(links, values[i], values[i + 1]) end
  return links
end

-- All parents of parents.
answersToList.ancestors = function(handles)
  local found, seen = {}, {}
  local ahead = handles
  while #ahead > 0 and #found < 20000 do
    local above = {}
    for _, handle in ipairs(ahead) do
      for _, parent in ipairs(parentsOf(handle)) do
        if not seen[parent.id] then
          seen[parent.id] = true
          found[#found + 1] = parent.id
          above[#above + 1] = handleOfId(parent.id)
        end
      end
    end
    ahead = above
  end
  return found
end

answers.doomed = function()
  return call('ZRANGE', named('doomed'), 0, 99)
end

answersToList.gatesByNumber = function(nums)
  return gatesOf(nums)
end

answers.activeGates = function()
  return gatesOf(call('ZRANGE', named('activegates'), 0, -1))
end

-- Behind a child, in the order of their ids: each child and the link to it; as one text unless that could not be taken apart.
answers.links = function(parent, child, size)
  local from = child == '' and '-' or '(' .. child
  local children = call('ZRANGEBYLEX', named('linked:' .. parent), from, '+', 'LIMIT', 0, size)
  local rows, isPlain = {}, true
  for i, link in ipairs(allOf('link:' .. parent, children)) do
    rows[2 * i - 1] = children[i]
    rows[2 * i] = link
    isPlain = isPlain and not string.find(link, '\30', 1, true)
  end
  return isPlain and table.concat(rows, '\30') or rows
end

-- The same by the handle of the parent: its position, and its links; false for one that is not there.
answers.linksOf = function(handle, child, size)
  local body = bodyOf(handle)
  return body and { seqIn(body), answers.links(seqIn(body), child, size) }
end

-- Those that have not ended, in the order in which they came.
answers.openSteps = function(position)
  local steps = call('HVALS', named('steps:' .. position))
  local open = {}
  for _, step in ipairs(steps) do
    if sub(step, 1, 1) == '1' then open[#open + 1] = step end
  end
  return open
end

answers.logs = function(position)
  return call('LRANGE', named('logs:' .. position), 0, -1)
end

answers.steps = function(position)
  return call('HVALS', named('steps:' .. position))
end

answers.kind = function(name)
  return kindNumber(name)
end

answers.queue = function(name)
  return queueFlags(name)
end

answers.positions = function(size)
  return call('HINCRBY', root, 'seq', size)
end

-- Left by who was given numbers: a server that does not have it has forgotten them, and gives them to others.
answers.mark = function(mark)
  return call('SET', named('mark:' .. ARGV[3]), mark, 'PX', 60000)
end

answers.counts = function()
  local rows = {}
  local names = call('HGETALL', named('kindnames'))
  for i = 1, #names, 2 do rows[#rows + 1] = { names[i], names[i + 1], call('HGETALL', named('c:' .. names[i])) } end
  return rows
end

-- Jobs that run and are special.
answers.special = function()
  local jobs = {}
  local running = call('HGETALL', named('running'))
  for i = 1, #running, 2 do
    if running[i] ~= '' and sub(running[i + 1], -1) == '*' then jobs[#jobs + 1] = jobOf(handleOf(running[i])) end
  end
  return jobs
end

answers.causes = function(size)
  local rows = {}
  for _, cause in ipairs(call('ZREVRANGE', named('causes'), 0, size - 1)) do
    rows[#rows + 1] = { cause, call('HGETALL', named('cause:' .. cause)) }
  end
  return rows
end

-- Gates behind a number, of a kind or of an owner.
answers.gates = function(set, after, size)
  return gatesOf(call('ZRANGEBYSCORE', named(set), '(' .. after, '+inf', 'LIMIT', 0, size))
end

answers.names = function(set, after, size)
  return call('ZRANGEBYLEX', named(set), after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, size)
end

answers.scanUp, answers.scanDown, answers.scanRunning, answers.scanPending = scanUp, scanDown, scanRunning, scanPending

-- More than fit on the stack.
local function valuesAt(first, last)
  local values = {}
  for i = first, last do values[#values + 1] = ARGV[i] end
  return values
end

local function answerTo(name, first, last)
  if answersToList[name] then return answersToList[name](valuesAt(first, last)) end
  return answers[name](unpack(ARGV, first, last))
end

local told = { format('%.17g', now), commit }
local at = 5
while at <= #ARGV do
  local size = tonumber(ARGV[at + 1])
  told[#told + 1] = answerTo(ARGV[at], at + 2, at + 1 + size)
  at = at + 2 + size
end
return told
