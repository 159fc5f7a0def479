-- A process that listens, and for how many ms; 0 when it no longer does: from then on it is given nothing, and the last thing that it
-- hears is a word of that. ARGV: its ear, ms, and then the queues that it has waited for.
local ear, ms = ARGV[1], tonumber(ARGV[2])
if ms == 0 then
  forgetEar(ear)
  for i = 3, #ARGV do call('SREM', named('idle:' .. ARGV[i]), ear) end
  send(ear, '!bye')
elseif call('ZADD', named('ears'), clock('') + ms, ear) == 1 then
  call('SADD', named('newcomers'), ear)
end
return 'OK'
