-- Takes jobs back from a process that they were given to by insert.lua, if it has not heard of it: it is no more. Who waits in a blocking
-- command is served when the script that gave them is over. ARGV: the process's ear, the token of the claim.
-- Answers how many wait again.
local ear, token = named('ear:' .. ARGV[1]), ARGV[2]
for _, message in ipairs(call('LRANGE', ear, 0, -1)) do
  local worker, own, kind, name, rest = string.match(message, '^\n([^\n]*)\n([^\n]*)\n[^\n]*\n([^\n]*)\n([^\n]*)\n[^\30]*\30([^\30]*)')
  if own == token then
    local lane, queue = string.match(name, '^(%d+):([^:]*):')
    -- Its gates count them as running since then: the lease gives them back, at the desk.
    if isLimited(call('HGET', named('queues'), queue) or '') then return 0 end
    call('LREM', ear, 1, message)
    call('SREM', named('idle:' .. queue), ARGV[1])
    call('HDEL', named('offers'), ARGV[1])
    local size = 0
    for ticket in string.gmatch(rest, '[^\n]+') do
      if call('HGET', named('running'), ticket) == token then
        size = size + 1
        call('HDEL', named('running'), ticket)
        call('ZADD', named('back:' .. lineName(lane, queue)), 0, ticket)
      end
    end
    if size > 0 then leaseDone(worker, token, size) end
    count(kind, 'running', -size)
    count(kind, 'pending', size)
    wake(queue, size, '')
    -- It may have been busy for a moment, and believes that there is nothing.
    send(ARGV[1], queue)
    return size
  end
end
return 0
