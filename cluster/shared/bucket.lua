-- One take from one shared bucket.
--
-- KEYS[1]  the bucket, "at used scale interval burst": at the time at (in
--          microseconds since 1970) the bucket lacked so many units of being
--          full. That is one GCRA word, the time at which the bucket will be
--          full, split in two so that both parts stay exact in a double. No
--          key: a full bucket.
-- ARGV     1 scale     units in a microsecond; below 0: microseconds in a unit
--          2 interval  units for a token
--          3 burst     tokens that the bucket holds
--          4 ahead     microseconds of refill that may be taken in advance
--          5 lapse     microseconds until the same taker comes again
--          6 want      tokens wanted
--          7 need      of these, tokens that somebody waits for right now
--          8 share     quarters of what there is that may be taken
--          9 back      tokens given back first
--         10 charge    tokens taken first, there or not
-- returns  tokens granted; units that the bucket lacked before; now
--
-- Every number that counts is a whole one below 2^53; what may go beyond is
-- only compared, or rounded against the taker.
local arg = {}
for i = 1, 10 do arg[i] = tonumber(ARGV[i]) end
local scale, interval, burst, ahead, lapse = arg[1], arg[2], arg[3], arg[4], arg[5]
local want, need, share, back, charge = arg[6], arg[7], arg[8], arg[9], arg[10]
local exact = 9007199254740992 -- 2^53

local function div(a, b) return (a - a % b) / b end

-- The units in so many microseconds, rounded down.
local function units(us, s)
  if s > 0 then return us * s end
  return div(us, -s)
end

local function micros(u, s)
  if s > 0 then return u / s end
  return u * -s
end

-- A time, in whole units.
local function tick(us, s)
  if s > 0 then return us end
  return us - us % -s
end

local cap, lent = burst * interval, units(ahead, scale)
local most = 2 * cap + lent -- a burst of debt

-- A bucket under another limit keeps its tokens, fractions rounded down, at
-- most the new burst; the refill taken in advance stays so as a time, and a
-- debt in tokens.
local function convert(used, s, i, b)
  local held = b * i - used
  if held >= 0 then
    local whole = div(held, i)
    if whole >= burst then return 0 end
    local product = held % i * interval
    local part = math.floor(product / i)
    if product >= exact then part = math.max(0, part - 4) end
    used = cap - whole * interval - part
  else
    local advance = math.min(-held, units(ahead, s))
    local owed = -held - advance
    used = cap + math.ceil(owed / i * interval)
    if advance > 0 then used = used + math.ceil(units(micros(advance, s), scale)) + 1 end
    if owed > 0 then used = used + 4 end
  end
  if scale < 0 then used = used + 1 end -- its clock may be about to tick
  return used
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local used, changed = 0, false
local word = redis.call('GET', KEYS[1])
if word then
  local at, u, s, i, b = string.match(word, '^(%d+) (%d+) (%-?%d+) (%d+) (%d+)$')
  if not at then return redis.error_reply('ERR ' .. KEYS[1] .. ' is not a bucket') end
  at, used, s, i, b = tonumber(at), tonumber(u), tonumber(s), tonumber(i), tonumber(b)
  changed = at > now -- a clock that was set back: the bucket goes on from there
  used = math.max(0, used - math.max(0, units(tick(now, s) - at, s)))
  if s ~= scale or i ~= interval or b ~= burst then
    used, changed = math.min(convert(used, s, i, b), most), true
  end
end

used = math.max(0, used - back * interval)
used = math.max(used, math.min(used + charge * interval, most))

local free = div(math.max(0, cap + lent - used), interval)
local held = div(math.max(0, cap - used), interval)
local lost = div(math.max(0, units(lapse, scale) - used), interval)
local grant = math.min(want, free, math.max(math.ceil(free * share / 4), math.min(need, held), lost))

local after = used + grant * interval
if grant > 0 or back > 0 or charge > 0 or changed then
  -- Kept until it is full, and a while longer: if it were forgotten while not
  -- all takers have learned of a lower burst, the others would find a full one.
  local expiry = math.min(9e12, math.ceil(micros(after, scale) / 1000) + 15000)
  local text = string.format('%.0f %.0f %.0f %.0f %.0f', tick(now, scale), after, scale, interval, burst)
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', expiry))
end
return {grant, used, now}
