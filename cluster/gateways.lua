-- Counts the gateways that live.
-- KEYS[1]  sorted set of gateways by their last sign of life, in milliseconds
-- ARGV     1 this gateway's id, 2 milliseconds that a sign of life counts
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function text(n) return string.format('%.0f', n) end
redis.call('ZADD', KEYS[1], text(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now - tonumber(ARGV[2])))
redis.call('ZREMRANGEBYSCORE', KEYS[1], text(now + 1), '+inf') -- of a clock that was set back
redis.call('PEXPIRE', KEYS[1], text(2 * tonumber(ARGV[2])))
return redis.call('ZCARD', KEYS[1])
