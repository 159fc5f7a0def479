-- Adds plain jobs. ARGV: now, this process's ear or '', the claim of an idle worker of this process that they may be given to: worker
-- or '' for none, token, lease in ms, how many lines it asks for, and these; how many teams there are (jobs of the same group and as
-- many gates), and of each the key of its group's gate and what is unusual about its jobs; then groups of jobs that follow each other
-- and are alike: the name of their kind ('lane:queue:name'), whether their definition has limits, whether they are in teams, when they
-- are due ('' at once, '+ms' later, 'ms' at that time), the handle of their parent or '', what is unusual about all of them, the link to
-- each child, how many they are, then handle, rest of the body and, if it has one, team of each.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise { now, places of those that exist, the position
-- before the first one, the number of the last kind, whom they were given to }: '' for nobody, 'own' for that claim, or the ear of
-- another process and the token of the claim that this one had left behind, which is to be checked with retract.lua.
local now, ear = clock(ARGV[1]), ARGV[2]

-- Of all jobs, by their places.
local handles, rests, teamAt = {}, {}, {}

local function readOwn(at)
  local own = { worker = ARGV[at], token = ARGV[at + 1], lease = ARGV[at + 2], lines = {} }
  local size = tonumber(ARGV[at + 3])
  for i = 1, size do own.lines[i] = ARGV[at + 3 + i] end
  return own, at + 4 + size
end

local function readTeams(at)
  local teams, size = {}, tonumber(ARGV[at])
  for i = 1, size do teams[i] = { key = ARGV[at + 2 * i - 1], unusual = ARGV[at + 2 * i] } end
  return teams, at + 1 + 2 * size
end

local function readGroup(at, teams)
  local lane, queue, job = string.match(ARGV[at], '^(%d+):([^:]*):(.*)$')
  local group = { name = ARGV[at], job = job, queue = queue, lane = tonumber(lane), line = lineName(lane, queue), teams = {} }
  group.gated, group.isTeamed, group.due = ARGV[at + 1] == '1', ARGV[at + 2] == '1', ARGV[at + 3]
  group.parent, group.unusual, group.link = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  group.first, group.size = #handles + 1, tonumber(ARGV[at + 7])
  local width, place, isTeamed = group.isTeamed and 3 or 2, #handles, group.isTeamed
  local first, last = at + 8, at + 7 + width * group.size
  for i = first, last, width do
    place = place + 1
    handles[place] = ARGV[i]
    rests[place] = ARGV[i + 1]
    if isTeamed then
      local team = teams[tonumber(ARGV[i + 2])]
      teamAt[place] = team
      group.teams[team] = true
    end
  end
  return group, last + 1
end

local function readGroups(at, teams)
  local groups = {}
  while at <= #ARGV do groups[#groups + 1], at = readGroup(at, teams) end
  return groups
end

-- Where jobs of a group go, as far as that is known. False if only the desk can tell.
local function lookAtGroup(group)
  local flags = call('HGET', named('queues'), group.queue)
  group.isPaused, group.isLimited = flags and isPaused(flags), flags and isLimited(flags)
  group.kind = call('HGET', named('kinds'), group.name)
  -- A new kind may be of a definition that has limits.
  if group.isLimited or group.gated or group.isTeamed or not group.kind then
    group.loan = loanToJoin(group)
    if group.loan == nil then return false end
  end
  for team in pairs(group.teams) do team.place = tonumber(group.loan.place) end
  if group.parent == '' then return true end
  group.family = familyOf(group.parent)
  return group.family and group.due == '' and not group.isLimited and not group.loan
end

local function lookAtGroups(groups, teams)
  for _, group in ipairs(groups) do
    if not lookAtGroup(group) then return false end
  end
  return #teams == 0 or areTeamsOfTallies(teams)
end

-- Places of jobs that exist, or are told twice.
local function knownIn(spreads)
  local existing = ofMany('j', spreads)
  local known, seen = {}, {}
  for i = 1, #handles do
    local handle = handles[i]
    if existing[i] or seen[handle] then known[#known + 1] = i end
    seen[handle] = true
  end
  return known
end

-- Tickets and handles of the group's jobs that are new, with their teams; their bodies are written behind `bodies`.
local function newOf(group, isKnown, position, bodies)
  local head, tail = group.kind .. ';', ';' .. format('%.17g', now) .. ';'
  local mark = ''
  -- Children go nowhere but to their line.
  if group.family then tail, mark = tail .. '+' .. group.family.position, group.family.mark end
  tail = tail .. group.unusual
  local tickets, new, members = {}, {}, {}
  local allHandles, allRests = handles, rests
  for i = group.first, group.first + group.size - 1 do
    if not isKnown[i] then
      local seq, handle, team = format('%011x', position + i), allHandles[i], teamAt[i]
      bodies[#bodies + 1] = head .. seq .. (team and tail .. team.unusual or tail) .. allRests[i]
      tickets[#tickets + 1] = seq .. handle .. mark
      new[#new + 1] = handle
      members[#new] = team
    end
  end
  return tickets, new, members
end

local function dueAt(group)
  if group.due == '' then return now end
  return sub(group.due, 1, 1) == '+' and now + tonumber(group.due) or tonumber(group.due)
end

local function schedule(group, due, tickets, new)
  local scored, stories, later = {}, {}, padded('10-' .. format('%.17g', due)) .. ';;'
  for i, ticket in ipairs(tickets) do
    scored[2 * i - 1] = due
    scored[2 * i] = ticket
    stories[i] = later
  end
  putMany('s', spread(new, 0), stories)
  inParts(scored, 'ZADD', named('state:1'))
  count(group.kind, 'scheduled', #tickets)
end

local function enqueue(group, tickets, members)
  if group.loan and (group.isTeamed or group.loan.name ~= '') then
    standIn(group.loan, group.kind, tickets, members)
  else
    inParts(tickets, 'RPUSH', named('line:' .. group.line))
  end
  count(group.kind, 'pending', #tickets)
  wake(group.queue, #tickets, ear)
end

local own, teamsAt = readOwn(3)
local teams, groupsAt = readTeams(teamsAt)
local groups = readGroups(groupsAt, teams)

-- First everything is looked at, so that nothing has been written if it is for the desk.
if not lookAtGroups(groups, teams) then return { 'desk' } end
local spreads = spread(handles, 0)
local known = knownIn(spreads)
if next(families) and (#known > 0 or not areLinkable(groups, handles)) then return { 'desk' } end

-- Now it is written.
local position = call('HINCRBY', root, 'seq', #handles) - #handles
local isKnown, added, bodies = {}, {}, {}
for _, i in ipairs(known) do isKnown[i] = true end
local isLater, given, kind = false, '', nil
for _, group in ipairs(groups) do
  group.kind = group.kind or kindNumber(group.name)
  kind = group.kind
  local tickets, new, members = newOf(group, isKnown, position, bodies)
  local due = dueAt(group)
  if due > now then
    isLater = true
    schedule(group, due, tickets, new)
  elseif #tickets > 0 then
    local claim = #groups == 1 and #known == 0 and claimFor(group, own, rests, ear, position, now)
    if claim then given = give(claim, group, tickets, bodies, ear, now) else enqueue(group, tickets, members) end
  end
  if #known > 0 then
    for i = 1, #new do added[#added + 1] = new[i] end
  end
  count(group.kind, 'total_enqueued', #tickets)
end
putMany('j', #known > 0 and spread(added, 0) or spreads, bodies)
if #teams > 0 then keepTallies(tallies) end
for _, family in pairs(families) do link(family) end

-- Ears go by the server's own time.
if isLater then tell(ear, '!', clock('')) end

return { format('%.17g', now), known, position, kind, given }
