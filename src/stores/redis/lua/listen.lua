-- A process that listens, and for how many ms; 0 when it no longer does: from then on it is given nothing. ARGV: its ear, ms.
local now = clock('')
if ARGV[2] == '0' then
  call('ZREM', named('ears'), ARGV[1])
  call('SREM', named('newcomers'), ARGV[1])
  call('HDEL', named('offers'), ARGV[1])
else
  if call('ZADD', named('ears'), now + tonumber(ARGV[2]), ARGV[1]) == 1 then call('SADD', named('newcomers'), ARGV[1]) end
end
return 'OK'
