-- reserve grants units at the first instant that the pace allows.
--
-- ARGV: the time, or '' for Redis's; kind, x, y and burst of the pace; the units;
-- and how many microseconds the caller would wait at most.
--
-- The answer is 1, how long to wait, and what cancel needs; or 0 and how long it
-- would be, and nothing was granted; or j, for the key holds no pace.

local given, kind = ARGV[1], ARGV[2]
local x, y, burst, n, patience = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
local now = clock(given)

-- adapt makes p a pace of other numbers: what was used stays used, and what
-- was there stays there.
local function adapt(p)
  local from, widest = math.max(now, p.hold), math.max(p.burst, p.most)
  if p.x == 0 then -- held, and nothing is known: one unit is there at its end
    p.zi, p.zr = minus(p.hold, 0, y, x)
  elseif p.kind == 'e' then
    p.zi, p.zr = p.last, 0
  else
    local low, part = minus(from, 0, math.max(p.burst, p.most) * p.y, p.x)
    p.zi, p.zr = later(p.zi, p.zr, low, part)
    local weight = (from - p.zi) * p.x - p.zr
    local units = floor(weight / p.y)
    local rest = weight - units * p.y
    if units >= math.max(burst, n) then
      units, rest = math.max(burst, n), 0
    elseif rest * y <= exact then
      rest = floor(rest * y / p.y)
    else
      rest = math.max(floor(rest / p.y * y) - 1, 0)
    end
    p.zi, p.zr = minus(from, 0, units * y + rest, x)
    if p.zr < 0 or p.zr >= x or p.zi > from + span then -- more is promised than can be told
      p.zi, p.zr = from + span, 0
    end
  end
  p.most = math.min(widest, floor(span / y))
  if p.units * y > span or p.units * y / x > span then
    p.units = 1
  end
  p.kind, p.x, p.y, p.burst = kind, x, y, burst
  forget(p, now)
end

local value = get(KEYS[1])
local p
if value then
  p = type(value) == 'string' and read(value, now)
  if not p then
    return { 'j' }
  end
  if fresh(p) <= now then -- it is about to expire
    p = nil
  end
end
if p then
  if p.x ~= x or p.y ~= y or p.burst ~= burst or p.kind ~= kind then
    adapt(p)
  end
else
  p = { kind = kind, x = x, y = y, burst = burst, era = now, grants = 0, most = 0, last = 0, units = 0, hold = 0, at = {}, free = {} }
  p.zi, p.zr = minus(now, 0, math.max(burst, n) * y, x)
end

local soonest = math.max(now, p.hold)
local at, zi, zr, place
if kind == 'p' then
  zi, zr = plus(p.zi, p.zr, n * y, x)
  at = math.max(soonest, zi + (zr > 0 and 1 or 0))
  local low, part = minus(at, 0, math.max(burst, n) * y, x)
  zi, zr = later(p.zi, p.zr, low, part) -- a full bucket earns nothing
  zi, zr = plus(zi, zr, n * y, x)
else
  at = math.max(soonest, p.last + ceil(p.units * y / x))
  zi, zr = p.zi, p.zr
end
for i = 1, #p.at do
  if n > 0 and p.free[i] >= n and p.at[i] >= now and p.at[i] <= at then
    at, place = p.at[i], i
    break
  end
end

local wait = at - now
local granted = wait <= patience
local receipt = ''
if granted and place then
  receipt = format('%.0f,%.0f,%.0f,0', p.era, at, n)
  p.free[place] = kind == 'p' and p.free[place] - n or 0
  p.changed = true
elseif granted and n > 0 then
  receipt = format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f', p.era, at, n, p.grants + 1, p.zi, p.zr, p.most, p.last, p.units)
  p.grants, p.zi, p.zr, p.most, p.last, p.units = p.grants + 1, zi, zr, kind == 'p' and math.max(p.most, n) or p.most, at, n
  p.changed = true
end
if p.changed then -- though nothing is granted: by the next time the clock has gone on
  write(KEYS[1], p, now, given)
end
return { granted and '1' or '0', format('%.0f', wait), receipt }
