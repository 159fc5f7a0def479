-- Forgets parcels that have arrived elsewhere, and stubs of those that moved long ago. ARGV: now,
-- then the ids of jobs whose parcels are to be forgotten.
local now = clock(ARGV[1])
for i = 2, #ARGV do call('HDEL', named('parcels'), ARGV[i]) end
for _, handle in ipairs(call('ZRANGEBYSCORE', named('stubs'), '-inf', now, 'LIMIT', 0, 1000)) do
  if isStub(of('j', handle)) then call('HDEL', hashOf('j', handle), fieldOf(handle)) end
  call('ZREM', named('stubs'), handle)
end
return 'OK'
