-- For look.lua: how jobs, workers and kin are told to the desk; see page/job-reply.ts. This is what a job is, unless it has moved.
local function bodyOf(handle)
  local body = of('j', handle)
  return not isStub(body) and body
end

-- A job as a list: handle, body, story, token, worker, wait, turn, done, parent, start, what `running` has; '' for what it has not.
local function jobOf(handle)
  local body = bodyOf(handle)
  if not body then return false end
  local job = { handle, body, '', '', '', '', '', '', '', '', '' }
  local ticket = ticketOf(seqIn(body), handle)
  local story = of('s', handle)
  if story then
    job[3] = story
    if sub(story, 3, 3) == 'p' then job[9] = call('HGET', named('parents'), seqIn(body)) or '' end
    if sub(story, 1, 1) ~= '0' then return job end
  end
  local token = call('HGET', named('running'), ticket)
  if token then
    job[4], job[11] = claimIn(token), token
    local lease = call('HMGET', named('l:' .. job[4]), 'worker', 'at')
    job[5], job[10] = lease[1] or '', lease[2] or ''
    return job
  end
  job[8] = of('d', handle) or ''
  if job[8] ~= '' then return job end
  local wait = call('HGET', named('waits'), ticket)
  if wait then
    job[6] = wait
    job[7] = call('ZSCORE', named('place:' .. string.match(wait, '^[^;]+')), ticket) or ''
  end
  return job
end

local function jobsOf(handles)
  local jobs = {}
  for _, handle in ipairs(handles) do
    local job = jobOf(handle)
    if job then jobs[#jobs + 1] = job end
  end
  return jobs
end

local function heldUnder(token)
  local held, tickets = {}, {}
  for ticket in string.gmatch(call('HGET', named('l:' .. token), 'tickets') or '', '[^\n]+') do tickets[#tickets + 1] = ticket end
  for i, running in ipairs(allOf('running', tickets)) do
    if running and claimIn(running) == token then held[#held + 1] = tickets[i] end
  end
  return held
end

local function workerOf(id)
  local expires = call('ZSCORE', named('workers'), id)
  if not expires then return false end
  local leases = {}
  for _, token in ipairs(call('SMEMBERS', named('w:' .. id))) do
    local lease = call('HMGET', named('l:' .. token), 'worker', 'at', 'left')
    if lease[1] then leases[#leases + 1] = { token, unpack(lease) } end
  end
  return { id, expires, call('HGET', named('latest'), id) or '', leases }
end

local function parentsOf(handle)
  local unusual = string.match(bodyOf(handle) or '', '^%d+;%x+;[^;]*;%+?%d*({[^\n]*)\n')
  if not unusual then return {} end
  -- See unusual.ts.
  local given = cjson.decode(unusual)
  if given.child then return { { id = given.child[1] } } end
  return given.family and given.family.parents or {}
end

-- Links are told as three values each: the position of the parent, the child, and the link itself.
local function addLink(links, parent, child)
  local body = bodyOf(parent)
  local link = body and call('HGET', named('link:' .. seqIn(body)), child)
  if not link then return end
  for _, value in ipairs({ seqIn(body), child, link }) do links[#links + 1] = value end
end
