-- When a sweep would find something to do: a worker's lease has run out, a job or a schedule is due, children of a cancelled job
-- are to be cancelled, a signal goes round. Answers { ms until something is to be done, ms until a job is due, ms until a
-- schedule is }, each '' when there is none.
local now = clock('')

local function untilFirst(set)
  local first = call('ZRANGE', named(set), 0, 0, 'WITHSCORES')[2]
  if not first or first == 'inf' then return nil end
  return math.max(0, tonumber(first) - now)
end

local function sooner(a, b)
  if not a or not b then return a or b end
  return math.min(a, b)
end

local work, due, slot = untilFirst('workers'), nil, nil
local dueSets, others = { 'state:1', 'state:3', 'state:4' }, { 'looks', 'doomed', 'spreading' }
local keys = {}
for _, names in ipairs({ dueSets, others }) do
  for _, name in ipairs(names) do keys[#keys + 1] = named(name) end
end
-- Most who look again and again find none of them.
if call('EXISTS', unpack(keys)) > 0 then
  for _, set in ipairs(dueSets) do due = sooner(due, untilFirst(set)) end
  slot = untilFirst('looks')
  work = sooner(work, sooner(due, slot))
  if call('EXISTS', named('doomed'), named('spreading')) > 0 then work = 0 end
end

local function told(wait)
  return wait and format('%.17g', wait) or ''
end

return { told(work), told(due), told(slot) }
