-- A pace is text:
--
--   1<kind><x>,<y>,<burst>;<era>,<grants>,<seen>,<paid>,<part>,<most>,<last>,<units>,<hold>;
--
-- All times are microseconds, all numbers whole and at most 2^53, which a double
-- holds exactly. What stands before the first semicolon is the pace that wrote it:
-- p lets idle time earn a burst, e spaces evenly; a unit weighs y, and x are
-- earned each microsecond. x is 0 where only a hold is known.
--
--   era      what was granted in an earlier one cannot be given back
--   grants   how many since then
--   seen     the latest time of the clock
--   paid     the instant, and part/x of a microsecond, at which the bucket holds
--            nothing: what is granted is paid for by then
--   most     the largest grant since the bucket was new, and the largest burst of
--            those who asked before with another: it is not new before it is full
--            under that, or they would find it so
--   last     the latest instant granted, and the units granted for it
--   hold     nobody is granted an instant before it
--
-- <instant>,<units>; follows for each grant that was given back though a later one
-- stands; the earliest first. Whoever takes its place changes nothing for others.

local floor, ceil, format, match = math.floor, math.ceil, string.format, string.match
local exact = 9007199254740992 -- 2^53
local span = 2251799813685248 -- 2^51
local places = 128
local longest = 8192 -- no pace has as many bytes

-- get returns a value, or junk for one that is longer than any of ours: it is not
-- read, for that would keep Redis busy.
local function get(key)
  local value = redis.pcall('GETRANGE', key, '0', '8192')
  if value == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  return type(value) == 'string' and #value <= longest and value or { value }
end

-- plus returns zi + zr/x + w/x, and minus the difference.
local function plus(zi, zr, w, x)
  local t = zr + w
  local k = floor(t / x)
  return zi + k, t - k * x
end

local function minus(zi, zr, w, x)
  return plus(zi, zr, -w, x)
end

-- later returns the later of two instants.
local function later(zi, zr, yi, yr)
  if yi > zi or yi == zi and yr > zr then
    return yi, yr
  end
  return zi, zr
end

-- clock returns the time that was passed, or else Redis's own.
local function clock(given)
  if given ~= '' then
    return given + 0
  end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- forget begins an era.
local function forget(p, now)
  p.era, p.at, p.free, p.changed = math.max(now, p.era + 1), {}, {}, true
end

-- fresh returns when a pace equals a new one.
local function fresh(p)
  local full = p.hold
  if p.x == 0 then
    full = full + 86400000000 -- the bucket is empty then, and who knows for how long
  elseif p.kind == 'p' then
    local zi, zr = plus(p.zi, p.zr, math.max(p.burst, p.most) * p.y, p.x)
    full = math.max(full, zi + (zr > 0 and 1 or 0))
  else
    full = math.max(full, p.last + ceil(math.max(p.units, p.most) * p.y / p.x))
  end
  return full
end

-- read returns the pace that a value holds as its clock now stands, or nil for
-- junk.
local function read(value, now)
  local p, rest = {}, nil
  local x, y, burst, era, grants, seen, zi, zr, most, last, units, hold
  p.kind, x, y, burst, era, grants, seen, zi, zr, most, last, units, hold, rest = match(value,
    '^1([pe])(%d+),(%d+),(%d+);(%d+),(%d+),(%d+),(%-?%d+),(%d+),(%d+),(%-?%d+),(%d+),(%-?%d+);(.*)$')
  if not rest then
    return nil
  end
  p.x, p.y, p.burst, p.era, p.grants, p.seen = x + 0, y + 0, burst + 0, era + 0, grants + 0, seen + 0
  p.zi, p.zr, p.most, p.last, p.units, p.hold = zi + 0, zr + 0, most + 0, last + 0, units + 0, hold + 0
  for _, number in pairs(p) do
    if type(number) == 'number' and (number > exact or number < -exact) then
      return nil
    end
  end
  if p.x > 0 and (p.y == 0 or p.burst == 0 or p.zr >= p.x or
      math.max(p.burst, p.most, p.units) * p.y > exact or fresh(p) > exact) then
    return nil
  end
  p.at, p.free = {}, {}
  local i, at, free = 1, nil, nil
  while i <= #rest do
    at, free, i = match(rest, '^(%d+),(%d+);()', i)
    if not at or #p.at == places then
      return nil
    end
    p.at[#p.at + 1], p.free[#p.free + 1] = at + 0, free + 0
  end
  if now < p.seen then -- the clock has stepped back: no time has passed
    local back = p.seen - now
    p.zi, p.last, p.hold = p.zi - back, p.last - back, p.hold - back
    forget(p, now)
  end
  return p
end

-- write keeps a pace until it equals a new one.
local function write(key, p, now, given)
  local full = fresh(p)
  if full <= now then
    redis.call('DEL', key)
    return
  end
  local text = { format('1%s%.0f,%.0f,%.0f;%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f;', p.kind, p.x, p.y, p.burst,
    p.era, p.grants, now, p.zi, p.zr, p.most, p.last, p.units, p.hold) }
  for i = 1, #p.at do
    if p.at[i] > now and p.free[i] > 0 then
      text[#text + 1] = format('%.0f,%.0f;', p.at[i], p.free[i])
    end
  end
  -- A clock of milliseconds was read a little before. A time that was passed does not run.
  redis.call('SET', key, table.concat(text), 'PX', format('%.0f', floor((full - now) / 1000) + (given == '' and 2 or 60000)))
end
