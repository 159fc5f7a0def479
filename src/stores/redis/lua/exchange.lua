-- Ends plain jobs and claims plain jobs. ARGV: now, worker, this process's ear or '', the number of ends, then those: groups of
-- token, kind, retain, whether there are results, how many, the length of a ticket if they have the same, and then all of them as one
-- text; then the results; then, if jobs are asked for: token, lease in ms, shared slots, slots of each of the four lanes, whether the
-- claim is a lasting one, the definitions that the worker has as a line each ('*' for all, '' if no queue is known to have limits),
-- and for each pick: queue, lane, take.
-- Answers { 'desk' } when only the desk can do it: nothing was written. Otherwise
-- { now, { places of ends that were lost }, { kind, name … }, tickets, bodies, { stories, '' for none }, waits, gates }; tickets are one
-- text, and bodies are where they are not large; `waits` is 1 when nothing is left for any slot and whoever adds a job wakes this process;
-- `gates` are those of the jobs' groups, as a line each, if any job has one. `now` is 0 where nothing happened.
local now = ARGV[4] ~= '0' and clock(ARGV[1]) or 0
local worker, ear = ARGV[2], ARGV[3]

-- Jobs of groups that started and that ended.
local function writeTallies()
  for num, by in pairs(endedIn) do tallies[num].running = math.max(0, tallies[num].running - by) end
  for num, by in pairs(takenIn) do
    tallies[num].pending = tallies[num].pending - by
    tallies[num].running = tallies[num].running + by
  end
  if next(tallies) then keepTallies(tallies) end
end

local function writeLoans()
  for _, loan in pairs(loans) do
    if loan and loan.isTold then
      if loan.timed then
        loan.log = loan.log .. table.concat({ format('%.17g', now), loan.new or 0, loan.over or 0 }, ':') .. ','
      end
      keepLoan(loan)
    end
  end
end

-- Between them stands what is in no body. Whoever still has one of a text keeps all of it in memory.
local function asText(bodies)
  local size = 0
  for i = 1, #bodies do size = size + #bodies[i] end
  return size <= 262144 and table.concat(bodies, '\30') or bodies
end

-- First everything is looked at, so that nothing has been written if it is for the desk.
local groups, at = readEnds(4)
local lost = groups and lookAtEnds(groups, worker, now)
if not lost then return { 'desk' } end
local claim = readClaim(at)
local bodies = {}
if claim then
  bodies = lookAtPicks(claim, worker, now) and takePicks(claim) and lookAtTaken(claim)
  if not bodies then return { 'desk' } end
end

-- Now it is written. Ends come first, for they free memory.
if #taken > 0 and now == 0 then now = clock(ARGV[1]) end
writeEnds(groups, worker, now)
leavePlaces()
writeTallies()
local kindNames, tickets = {}, ''
if claim then kindNames, tickets = writeClaim(claim, worker, bodies, now) end
writeLoans()
local waits = claim and waitForMore(claim, worker, ear) or 0

return { format('%.17g', now), lost, kindNames, tickets, asText(bodies), forEach(stories), waits, table.concat(forEach(gates), '\n') }
