-- What the desk writes. ARGV: the name of the last commit when the desk began to read, a name for this one, who writes, the mark that it
-- left when it was given numbers or '', then for each thing to do its name, how many values it has, and these. First all of them are
-- checked: MRSTALE when others were quicker, MRKNOWN when a job that was taken for new exists, MRWHOLE when one that was taken for
-- no more than a number among others is more, MRUNKNOWN when there is nothing of that name; then nothing is written. Commits have names,
-- not numbers: a server that lost some would count to the same one again. Answers { bodies, stories } of the jobs that were started by
-- their places, '' for no story to tell.
local last = call('HGET', root, 'commit') or 'none'
local isDone = last == ARGV[2]
if not isDone and last ~= ARGV[1] then return redis.error_reply('MRSTALE others have written meanwhile') end
if not isDone and not isFreeFor(ARGV[3]) then return redis.error_reply('MRSTALE it is the turn of another') end
if not isDone and ARGV[4] ~= '' and call('GET', named('mark:' .. ARGV[3])) ~= ARGV[4] then
  return redis.error_reply('MRSTALE the server has forgotten who got which number')
end

local checks = {}
local bodies, stories = {}, {}

-- A job is as it was read: running under the same token or not, with the same story and the same end.
checks.same = function(ticket, token, story, done)
  local handle = handleOf(ticket)
  local running = call('HGET', named('running'), ticket)
  local isSame = (running and claimIn(running) or '') == token and (of('s', handle) or '') == story and (of('d', handle) or '') == done
  if not isSame or not of('j', handle) then return 'MRSTALE a job has changed' end
end

-- What is kept of a parent is as it was read: children that are plain tell it of their ends without the desk.
checks.parent = function(position, text)
  if (call('HGET', named('parents'), position) or '') ~= text then return 'MRSTALE a child has ended' end
end

-- A parent has never had these children: they may have ended, and be forgotten.
checks.unlinked = function(position, ...)
  local links = named('link:' .. position)
  if call('EXISTS', links) == 0 then return end
  local found = call('HMGET', links, ...)
  for i = 1, #found do
    if found[i] then return 'MRKNOWN a child was there before' end
  end
end

local function areNew(tickets)
  local found = ofMany('j', spread(tickets, 11))
  for i = 1, #tickets do
    if found[i] then return 'MRKNOWN a job exists' end
  end
end

checks.add = function(_, _, _, ...)
  return areNew(every({ ... }, 2, 1))
end

checks.addTo = function(_, _, _, ...)
  return areNew(every({ ... }, 3, 1))
end

-- Nobody has started them since they were read: a loan may have been open still.
local function areWaiting(tickets)
  local waits = call('HMGET', named('waits'), unpack(tickets))
  for i = 1, #tickets do
    if not waits[i] then return 'MRSTALE a job waits no longer' end
  end
end

checks.waiting = function(...)
  return areWaiting({ ... })
end

-- Jobs that waited in a place start: the worker is told what they are.
local function tellOf(tickets)
  local spreads = spread(tickets, 11)
  local bodiesOf, storiesOf = ofMany('j', spreads), ofMany('s', spreads)
  for i = 1, #tickets do
    local story = storiesOf[i] or ''
    if not bodiesOf[i] or sub(story, 2, 2) == '1' then return 'MRWHOLE a job that waited is special' end
    bodies[#bodies + 1] = bodiesOf[i]
    stories[#stories + 1] = hasPast(story) and story or ''
  end
end

checks.start = function(_, _, ...)
  return areWaiting({ ... }) or tellOf({ ... })
end

checks['end'] = function(worker, token, _, _, size, ...)
  if call('HGET', named('l:' .. token), 'worker') ~= worker then return 'MRWHOLE a claim is gone' end
  local tokens = call('HMGET', named('running'), unpack({ ... }, 1, tonumber(size)))
  local team = token .. '~'
  for i = 1, #tokens do
    if tokens[i] ~= token and sub(tokens[i] or '', 1, #team) ~= team then return 'MRWHOLE a job that ran is special, or does not' end
  end
end

-- No job of the kind was started or ended meanwhile.
checks.count = function(kind, field, value)
  if (call('HGET', named('c:' .. kind), field) or '0') ~= value then return 'MRSTALE jobs were started or ended' end
end

-- What came of a loan is as it was read, and no more can come of it.
checks.loan = function(queue, begun, ended)
  local found = call('HMGET', named('loan:' .. queue), 'open', 'begun', 'ended')
  if found[1] or not found[2] or found[2] ~= begun or found[3] ~= ended then return 'MRSTALE a loan has changed' end
end

-- No numbers were given away meanwhile, which the fast path does for new groups.
checks.number = function(last)
  if (call('HGET', root, 'number') or '0') ~= last then return 'MRSTALE numbers were given away' end
end

-- A group's gate is the tally that was read; '' for none.
checks.tallied = function(key, before)
  if (tallyText(call('HGET', named('groups'), key)) or '') ~= before then return 'MRSTALE jobs of a group were added, started or ended' end
end

-- Others may have their turn. After this, which frees memory, a full server refuses nothing of what follows.
deeds.free = function()
  call('HDEL', root, 'turn')
end

deeds.call = function(command, key, ...)
  call(command, named(key), ...)
end

deeds.root = function(field, value)
  call('HSET', root, field, value)
end

deeds.wake = function(queue, jobs, self)
  wake(queue, tonumber(jobs), self)
end

deeds.tell = function(sender, word)
  tell(sender, word, clock(''))
end

local function eachDeed(work)
  local at = 5
  while at <= #ARGV do
    local size = tonumber(ARGV[at + 1])
    local refusal = work(ARGV[at], at + 2, at + 1 + size)
    if refusal then return refusal end
    at = at + 2 + size
  end
end

-- It was done, and the answer got lost.
if isDone then
  local refusal = eachDeed(function(name, first, last)
    if name == 'start' then return tellOf({ unpack(ARGV, first + 2, last) }) end
  end)
  if refusal then return redis.error_reply(refusal) end
  return { bodies, stories }
end

local refusal = eachDeed(function(name, first, last)
  if checks[name] then return checks[name](unpack(ARGV, first, last)) end
  if not deeds[name] then return 'MRUNKNOWN there is nothing called ' .. name .. ' to check or to write' end
end)
if refusal then return redis.error_reply(refusal) end
eachDeed(function(name, first, last)
  if deeds[name] then deeds[name](unpack(ARGV, first, last)) end
end)
call('HSET', root, 'commit', ARGV[2])
return { bodies, stories }
