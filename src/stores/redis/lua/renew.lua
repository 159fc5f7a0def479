-- Renews the lease of a worker that holds nothing. ARGV: now, worker, ms.
-- Answers 'desk' when only the desk can do it: the store has jobs under its lease, or no room. Otherwise 'OK'.
if call('EXISTS', named('w:' .. ARGV[2])) == 1 then return 'desk' end
local renewed = redis.pcall('ZADD', named('workers'), clock(ARGV[1]) + tonumber(ARGV[3]), ARGV[2])
return type(renewed) == 'table' and 'desk' or 'OK'
