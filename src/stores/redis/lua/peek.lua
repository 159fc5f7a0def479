-- When a sweep would find something to do: a worker's lease has run out, a job or a schedule is due, children of a cancelled job
-- are to be cancelled, a signal goes round. Answers { ms until something is to be done, ms until a job is due, ms until a
-- schedule is }, each '' when there is none.
local now = clock('')

local function untilFirst(set)
  local first = call('ZRANGE', named(set), 0, 0, 'WITHSCORES')[2]
  if not first or first == 'inf' then return nil end
  return math.max(0, tonumber(first) - now)
end

local due
for _, set in ipairs({ 'state:1', 'state:3', 'state:4' }) do
  local wait = untilFirst(set)
  if wait and (not due or wait < due) then due = wait end
end
local slot, lapse = untilFirst('looks'), untilFirst('workers')
local work = call('EXISTS', named('doomed'), named('spreading')) > 0 and 0 or nil
for _, wait in ipairs({ due or false, slot or false, lapse or false }) do
  if wait and (not work or wait < work) then work = wait end
end

local function told(wait)
  return wait and format('%.17g', wait) or ''
end

return { told(work), told(due), told(slot) }
