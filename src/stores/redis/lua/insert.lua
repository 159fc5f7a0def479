-- Adds plain jobs. ARGV: now, this process's ear or '', the claim of an idle worker of this process that they may be given to: worker
-- or '' for none, token, lease in ms, how many lines it asks for, and these; how many teams there are (jobs of the same group and as
-- many gates), and of each the key of its group's gate and what is unusual about its jobs; then groups of jobs that follow each other
-- and are alike: the name of their kind ('lane:queue:name'), whether their definition has limits, whether they are in teams, when they
-- are due ('' at once, '+ms' later, 'ms' at that time), the handle of their parent or '', what is unusual about all of them, the link to
-- each child, how many they are, then handle, rest of the body and, if it has one, team of each.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise { now, places of those that exist, the position
-- before the first one, the number of the last kind, whom they were given to }: '' for nobody, 'own' for that claim, or the ear of
-- another process and the token of the claim that this one had left behind, which is to be checked with retract.lua.
local now = clock(ARGV[1])
local own = { worker = ARGV[3], token = ARGV[4], lease = ARGV[5], lines = {} }
for i = 1, tonumber(ARGV[6]) do own.lines[i] = ARGV[6 + i] end
local teams = {}
local at = 8 + #own.lines
for i = 1, tonumber(ARGV[at - 1]) do
  teams[i] = { key = ARGV[at], unusual = ARGV[at + 1] }
  at = at + 2
end
local groups, handles, rests = {}, {}, {}
local teamAt = {}
local loans = {}

-- The loan that jobs come under: false if they have to pass no limits, nil if only the desk can say where they wait.
local function loanFor(group)
  local isLimitedJob = group.gated or call('SISMEMBER', named('limited'), group.job) == 1
  if not group.isLimited and not isLimitedJob and not group.isTeamed then return false end
  loans[group.queue] = loans[group.queue] or loanAt(group.queue)
  local loan = loans[group.queue]
  if not loan or loan.full or group.due ~= '' then return nil end
  if group.isTeamed and (not loan.grouped or loan.place == '0' or group.lane ~= loan.lane) then return nil end
  if loan.name == '' then return not isLimitedJob and loan or nil end
  return group.gated and loan.name == group.job and loan.kind == group.kind and loan or nil
end

-- Jobs that wait for others and take more of them, by their handles: false for one that does not, or not here. Whoever has the desk for
-- itself may be counting children.
local parents = {}

local function parentAt(handle)
  local body, story = of('j', handle), of('s', handle)
  if not body or isStub(body) or not story or not string.find(story, '^4.p') or not isFreeFor('') then return false end
  local position = seqIn(body)
  local waiting = string.match(call('HGET', named('parents'), position) or '', '^%[(%d+),null,')
  if not waiting or waiting == '0' then return false end
  return { position = format('%d', position), mark = parentMark(position), links = {}, ids = {} }
end

while at <= #ARGV do
  local name = ARGV[at]
  local lane, queue, job = string.match(name, '^(%d+):([^:]*):(.*)$')
  local flags = call('HGET', named('queues'), queue)
  local group = { name = name, job = job, queue = queue, lane = tonumber(lane), line = lineName(lane, queue), first = #handles + 1 }
  group.gated, group.isTeamed = ARGV[at + 1] == '1', ARGV[at + 2] == '1'
  group.due, group.size = ARGV[at + 3], tonumber(ARGV[at + 7])
  group.kind = call('HGET', named('kinds'), name)
  group.isPaused, group.isLimited = flags and isPaused(flags), flags and isLimited(flags)
  -- A new kind may be of a definition that has limits.
  if group.isLimited or group.gated or group.isTeamed or not group.kind then
    local loan = loanFor(group)
    if loan == nil then return { 'desk' } end
    group.loan = loan
  end
  local handle = ARGV[at + 4]
  group.unusual = ARGV[at + 5]
  if handle ~= '' then
    if parents[handle] == nil then parents[handle] = parentAt(handle) end
    group.parent, group.link = parents[handle], ARGV[at + 6]
    if not group.parent or group.due ~= '' or group.isLimited or group.loan then return { 'desk' } end
  end
  groups[#groups + 1] = group
  local width = group.isTeamed and 3 or 2
  at = at + 8
  for i = at, at + width * group.size - 1, width do
    handles[#handles + 1] = ARGV[i]
    rests[#rests + 1] = ARGV[i + 1]
    if group.isTeamed then
      local team = teams[tonumber(ARGV[i + 2])]
      team.place = tonumber(group.loan.place)
      teamAt[#handles] = team
    end
  end
  at = at + width * group.size
end

-- What is known of groups. Those that are more than tallies are for the desk; so are new ones while somebody has it for itself, for
-- whoever gives numbers away is in its way.
local tallies = {}

local function areTallied()
  local keys, nums, unknown = {}, {}, {}
  for i, team in ipairs(teams) do keys[i] = team.key end
  local found = allOf('groups', keys)
  for i, team in ipairs(teams) do
    team.num = found[i] or nil
    if team.num then nums[#nums + 1] = team.num else unknown[#unknown + 1] = team.key end
  end
  tallies = talliesOf(nums)
  if not tallies then return false end
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

if #teams > 0 and not areTallied() then return { 'desk' } end

local spreads = spread(handles, 0)
local existing = ofMany('j', spreads)
local known, seen = {}, {}
local bodies = {}
for i = 1, #handles do
  if existing[i] or seen[handles[i]] then known[#known + 1] = i end
  seen[handles[i]] = true
end

-- Whether the parents of children may take all of them: none was there before.
local function areLinkable()
  if #known > 0 then return false end
  for _, group in ipairs(groups) do
    local parent = group.parent
    if parent then
      for i = group.first, group.first + group.size - 1 do
        parent.ids[#parent.ids + 1] = idOf(handles[i])
        parent.links[#parent.ids] = group.link
      end
    end
  end
  for _, parent in pairs(parents) do
    local links = allOf('link:' .. parent.position, parent.ids)
    for i = 1, #parent.ids do
      if links[i] then return false end
    end
  end
  return true
end

if next(parents) and not areLinkable() then return { 'desk' } end
local position = call('HINCRBY', root, 'seq', #handles) - #handles

-- Whether nothing waits in any of these lines. `keys`: others that are not to exist either.
local function areEmpty(lines, keys)
  for _, line in ipairs(lines) do
    keys[#keys + 1] = named('line:' .. line)
    keys[#keys + 1] = named('back:' .. line)
  end
  return call('EXISTS', unpack(keys)) == 0
end

-- The claim that one of those who wait has left behind, if that has room for these jobs. It is used once: who takes jobs leaves another
-- one behind when it finds nothing more.
local function claimOfOther(group)
  for _, ear in ipairs(call('SRANDMEMBER', named('idle:' .. group.queue), 2)) do
    local offer = ear ~= ARGV[2] and call('HGET', named('offers'), ear)
    local worker, token, lease, room, lines = string.match(offer or '', '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)(\n.*)$')
    local till = worker and call('ZSCORE', named('workers'), worker)
    local isAlive = till and tonumber(till) > now
    if isAlive and tonumber(room) >= group.size and string.find(lines, '\n' .. group.line .. '\n', 1, true) then
      call('HDEL', named('offers'), ear)
      -- The claim itself may be made again, and has a lease of its own then.
      return { worker = worker, token = token .. 'g' .. format('%x', position), lease = lease, ear = ear }
    end
  end
end

-- Whose the jobs are from the beginning, if they are few (see boarding.ts), alike, all new, and nobody was there before them. To others
-- they are sent as a message, which is not to be large.
local function claimFor(group)
  if #groups > 1 or group.isPaused or group.isLimited or group.parent or group.size > 20 then return nil end
  -- It may have been made before, and its answer got lost.
  if own.worker ~= '' then return areEmpty(own.lines, { named('l:' .. own.token) }) and own or nil end
  local bytes = 0
  for i = 1, #rests do bytes = bytes + #rests[i] end
  return ARGV[1] == '' and bytes <= 65536 and areEmpty({ group.line }, {}) and claimOfOther(group) or nil
end

-- The jobs are running. Another process hears of it: a line each for worker, token, now, kind, its name, lease; then the tickets, as a
-- line each; then the bodies.
local function give(claim, group, kind, tickets)
  -- With what makes it a table; see asTable.
  local held = { '', long }
  for i, ticket in ipairs(tickets) do
    held[2 * i + 1] = ticket
    held[2 * i + 2] = claim.token
  end
  call('HSET', named('running'), unpack(held))
  local text = table.concat(tickets, '\n')
  startLease(claim.worker, claim.token, tonumber(claim.lease), #tickets, text, now)
  count(kind, 'running', #tickets)
  if not claim.ear then
    call('HSET', named('latest'), claim.worker, claim.token)
    call('HDEL', named('offers'), ARGV[2])
    return 'own'
  end
  local head = table.concat({ '', claim.worker, claim.token, format('%.17g', now), kind, group.name, claim.lease }, '\n')
  send(claim.ear, table.concat({ head, text, table.concat(bodies, '\30') }, '\30'))
  return { claim.ear, claim.token }
end

local function tallyFor(team)
  local tally = team.num and tallies[team.num]
  if not tally then
    team.num = tostring(call('HINCRBY', root, 'number', 1))
    tally = { num = team.num, pending = 0, running = 0, tag = 0, back = 0 }
    tallies[team.num] = tally
    call('HSET', asTable('groups'), team.key, team.num)
    call('HSET', asTable('tallynames'), team.num, team.key)
    call('ZADD', named('gates:group'), team.num, team.num)
    call('ZADD', named('gates:group:' .. string.match(team.key, '^[^\n]*\n([^\n]*)')), team.num, team.num)
  end
  if tally.pending == 0 then tally.back, tally.line = 0, team.place end
  return tally
end

-- Parents wait for as many more.
local function link(parent)
  local fields, ranked = {}, {}
  for i, id in ipairs(parent.ids) do
    fields[2 * i - 1] = id
    fields[2 * i] = parent.links[i]
    ranked[2 * i - 1] = '0'
    ranked[2 * i] = id
  end
  inParts(fields, 'HSET', named('link:' .. parent.position))
  inParts(ranked, 'ZADD', named('linked:' .. parent.position))
  local waiting, state = string.match(call('HGET', named('parents'), parent.position), '^%[(%d+)(,.*)$')
  state = string.gsub(state, '(\\"size\\":)(%d+)', function(name, size) return name .. format('%d', size + #parent.ids) end)
  call('HSET', named('parents'), parent.position, '[' .. format('%d', waiting + #parent.ids) .. state)
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
  inParts(scored, 'ZADD', named('place:' .. loan.place))
  inParts(waits, 'HSET', asTable('waits'))
  keepLoan(loan)
end

local isKnown = {}
for _, i in ipairs(known) do isKnown[i] = true end
local added = #known > 0 and {} or handles
local isLater = false
local given, kind = '', nil
for _, group in ipairs(groups) do
  kind = group.kind or kindNumber(group.name)
  local dueAt = now
  if sub(group.due, 1, 1) == '+' then dueAt = now + tonumber(group.due)
  elseif group.due ~= '' then dueAt = tonumber(group.due) end
  local head, tail = kind .. ';', ';' .. format('%.17g', now) .. ';'
  if group.parent then tail = tail .. '+' .. group.parent.position end
  tail = tail .. group.unusual
  local tickets, new, members = {}, {}, {}
  for i = group.first, group.first + group.size - 1 do
    if not isKnown[i] then
      local seq = format('%011x', position + i)
      if #known > 0 then added[#added + 1] = handles[i] end
      local team = teamAt[i]
      bodies[#bodies + 1] = head .. seq .. (team and tail .. team.unusual or tail) .. rests[i]
      -- Children go nowhere but to their line.
      tickets[#tickets + 1] = group.parent and seq .. handles[i] .. group.parent.mark or seq .. handles[i]
      new[#new + 1] = handles[i]
      members[#new] = team
    end
  end
  if dueAt > now then
    isLater = true
    local scored, stories, later = {}, {}, padded('10-' .. format('%.17g', dueAt)) .. ';;'
    for i, ticket in ipairs(tickets) do
      scored[2 * i - 1] = dueAt
      scored[2 * i] = ticket
      stories[i] = later
    end
    putMany('s', spread(new, 0), stories)
    inParts(scored, 'ZADD', named('state:1'))
    count(kind, 'scheduled', #tickets)
  elseif #tickets > 0 then
    local claim = #known == 0 and claimFor(group)
    if claim then
      given = give(claim, group, kind, tickets)
    else
      if group.loan and (group.isTeamed or group.loan.name ~= '') then
        standIn(group.loan, kind, tickets, members)
      else
        inParts(tickets, 'RPUSH', named('line:' .. group.line))
      end
      count(kind, 'pending', #tickets)
      wake(group.queue, #tickets, ARGV[2])
    end
  end
  count(kind, 'total_enqueued', #tickets)
end
putMany('j', #known > 0 and spread(added, 0) or spreads, bodies)
if #teams > 0 then keepTallies(tallies) end
for _, parent in pairs(parents) do link(parent) end

-- Ears go by the server's own time.
if isLater then tell(ARGV[2], '!', clock('')) end

return { format('%.17g', now), known, position, kind, given }
