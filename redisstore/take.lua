-- take charges all of KEYS or none of them.
--
-- ARGV: the time, or '' for Redis's; then for each key what its value begins with,
-- and the charge: the cost, and in the same form for a bucket by how much it moves
-- the instant from which it is empty, and the part over; and how far ahead that
-- may lie, and the part over; for a calendar five ends of periods about now.
-- Cost 0 asks whether 1 would pass and writes nothing. One argument more, and
-- nothing is charged, whatever the costs.
--
-- The answer is 1 if all were charged, else 0; the time, as seconds and
-- microseconds; and for each key, after one semicolon, its value as it was before,
-- or - for none, from which the caller works out the rest. A bucket can hold more
-- than its quota: what was charged while that was larger. Of a log the state is: all
-- units, the last entry's time, and when there will be room, or 0.
--
-- Or nothing was done: o and the time if a calendar's periods lie elsewhere;
-- j and the number of a key, the first being 1, that holds no value of ours.
--
-- time.lua and value.lua come before. It is the body of a function of KEYS and ARGV.

local pcall, find, type = redis.pcall, string.find, type
local period, muldiv, whole, entries, logged, carry
local n = #KEYS
local ok, told = #ARGV == 2 * n + 1, nil

-- What is to be written: of one key here, of several in tables.
local state, ends, was
local states, lives, olds, fixes
if n > 1 then
  states, lives, olds = { false, false, false }, { 0, 0, 0 }, { 0, 0, 0 }
end

for i = 1, n do
  local spec, charge = ARGV[2 * i], ARGV[2 * i + 1]
  local kind = sub(spec, 2, 2)
  local value = pcall('GETRANGE', KEYS[i], '0', longest)
  local cost, periodEnd, periodNext
  if kind == 'd' then
    if not period then
      period, muldiv, whole, entries, logged, carry = rare()
    end
    cost, periodEnd, periodNext = period(charge, now)
    if not periodEnd then
      return 'o' .. seconds .. ',' .. micros
    end
  end

  state, ends, was = false, 0, false
  local changed, fix, fixed = false, nil, nil -- what is to be kept if nothing is charged
  local own, how = spec, nil -- the numbers that it is kept under; and how they became these
  if value == '' then
    if pcall('EXISTS', KEYS[i]) == 1 then
      return 'j' .. i
    end
    value = false
  end
  local size = value and #value
  if value then
    if type(value) == 'table' then -- an error
      return find(value.err, 'WRONGTYPE', 1, true) and 'j' .. i or value
    end
    if find(value, spec, 1, true) ~= 1 then
      if not carry then
        period, muldiv, whole, entries, logged, carry = rare()
      end
      local x, y, quota = unpack('<ddd', spec, 3)
      local mended, mendedEnds
      local units = unpack('<d', charge, 1)
      own = sub(value, 1, start - 1)
      value, how, mended, mendedEnds = carry(value, kind, x, y, quota, now, periodEnd, units)
      if not value then
        return 'j' .. i
      end
      if how == 'new' then
        own, changed = spec, true
      elseif mended and units > 0 and mendedEnds > now then
        fixes = fixes or {}
        fixes[i] = { own, mended, mendedEnds }
      end
      value = spec .. value
      size = #value
    end
  end
  local seen = value or '-'

  if kind == 'b' then
    local a, b, x = 0, 0, nil
    local ahead, part, span, over
    cost, ahead, part, span, over = unpack('<ddddd', charge, 1)
    if value then
      if size ~= 42 then
        return 'j' .. i
      end
      a, b = unpack('<dd', value, start)
      was = not how and a
    end
    if b ~= 0 or part > 0 then
      x = unpack('<d', spec, 3)
      if not (b >= 0 and b < x and b % 1 == 0) then
        return 'j' .. i
      end
    end
    if not (a >= 0 and a <= most and a % 1 == 0) then
      return 'j' .. i
    end
    local full, least = span, over
    if how == 'same' then
      local y, quota
      x, y, quota = unpack('<ddd', own, 3)
      full = math.ceil(quota * y / x)
      least = x * full - quota * y
    end
    if how ~= 'cut' and (a - now > full or a - now == full and b < least) then -- the clock has stepped back
      a, b, changed = now + full, least, true
      seen = spec .. pack('<dd', a, b)
    end
    if changed then
      fix, fixed = pack('<dd', a, b), a
    end
    if a <= now then
      a, b = now, 0
    end
    a, b = a + ahead, b + part
    if x and b >= x then
      a, b = a - 1, b - x
    end
    if a - now > span or a - now == span and b < over then
      ok = false
    elseif cost > 0 then
      state, ends = pack('<dd', a, b), a
    end
  elseif kind == 'f' or kind == 'w' or kind == 'd' then
    local a, b = 0, 0
    local x, y, quota = unpack('<ddd', spec, 3)
    cost = cost or unpack('<d', charge, 1)
    local ask = cost > 0 and cost or 1
    if value then
      if size ~= 42 then
        return 'j' .. i
      end
      a, b = unpack('<dd', value, start)
      if not (a >= 0 and a <= most and a % 1 == 0 and b >= 0 and b <= most and b % 1 == 0) then
        return 'j' .. i
      end
      was = not how and a
    end
    if kind == 'd' then
      if a > periodNext then -- the clock has stepped back by more than a midnight
        a, changed = periodEnd, true
      end
    elseif a - now > x then
      a, changed = now + x, true
    end
    if changed then
      fix, fixed = pack('<dd', a, b), a
    end
    if a <= now then
      b = 0
      if kind == 'f' then
        a = now + x
      elseif kind == 'w' then
        a = (floor((now + y) / x) + 1) * x - y
      else
        a = periodEnd
      end
    end
    if ask > quota - b then
      ok = false
    elseif cost > 0 then
      state, ends = pack('<dd', a, b + cost), a
    end
  elseif kind == 'c' then
    local a, b, c = 0, 0, 0
    local x, _, quota = unpack('<ddd', spec, 3)
    cost = unpack('<d', charge, 1)
    local ask = cost > 0 and cost or 1
    if value then
      if size ~= 50 then
        return 'j' .. i
      end
      a, b, c = unpack('<ddd', value, start)
      if not (a >= 0 and a <= most and a % 1 == 0 and b >= 0 and b <= 4294967295 and b % 1 == 0 and
          c >= 0 and c <= 4294967295 and c % 1 == 0) then
        return 'j' .. i
      end
      was = not how and a
    end
    local from = a - 2 * x
    if a <= now then
      from, b, c = floor(now / x) * x, 0, 0
    elseif now < from then -- the clock has stepped back: the latest these can have come is now
      c = math.min(b + c, 4294967295)
      from, b, changed = floor(now / x) * x, 0, true
    elseif now >= from + x then
      from, b, c = from + x, c, 0
    end
    local used = c
    if b > 0 then
      local part = x - (now - from)
      if b * part < most then
        used = used + floor(b * part / x)
      else
        if not muldiv then
          period, muldiv, whole, entries, logged, carry = rare()
        end
        used = used + muldiv(b, part, x)
      end
    end
    if changed then
      fix, fixed = pack('<ddd', from + 2 * x, b, c), b + c > 0 and from + 2 * x or 0
    end
    if ask > quota - used then
      ok = false
    elseif cost > 0 then
      ends = from + 2 * x
      state = pack('<ddd', ends, b, c + cost)
    end
  else -- a log
    -- It is walked through only as far as entries have expired.
    local a, b, total, from = 0, 0, 0, 51
    local x, y, quota = unpack('<ddd', spec, 3)
    cost = unpack('<d', charge, 1)
    local ask = cost > 0 and cost or 1
    local here = y == 0 and now or (floor(now / y) + 1) * y
    if not whole then
      period, muldiv, whole, entries, logged, carry = rare()
    end
    if value then
      if size < 50 or (size - 50) % 16 > 0 then
        return 'j' .. i
      end
      a, b, total = unpack('<ddd', value, start)
      if whole(a) and a > here then -- the clock has stepped back
        local times, counts = entries(value, x, y, now)
        if not times then
          return 'j' .. i
        end
        value, changed = spec .. logged(times, counts), true
        size = #value
        a, b, total = unpack('<ddd', value, start)
      end
      if not (whole(a) and whole(b) and whole(total)) then
        return 'j' .. i
      end
    else
      size = 50
    end
    local at, units = 0, 0
    while from < size do
      at, units = unpack('<dd', value, from)
      if not (whole(at) and at <= a and whole(units)) then
        return 'j' .. i
      elseif at + x > now then
        break
      end
      total, from = total - units, from + 16
    end
    if a + x <= now then
      a, b, total = 0, 0, 0
    elseif total < b then
      return 'j' .. i
    end
    local room = 0
    if ask > quota then
      ok = false
    elseif ask > quota - total then
      ok = false
      local need, walk = total + ask - quota, from
      while walk < size and room == 0 do
        at, units = unpack('<dd', value, walk)
        if not (whole(at) and at <= a and whole(units)) then
          return 'j' .. i
        end
        need, walk = need - units, walk + 16
        if need <= 0 then
          room = at + x
        end
      end
      if room == 0 then
        room = a + x
      end
    elseif cost > 0 then
      local mine, older = cost, value and sub(value, from) or ''
      if a == here then
        mine = b + cost
      elseif total > 0 then
        older = older .. pack('<dd', a, b)
      end
      state, ends = pack('<ddd', here, mine, total + cost) .. older, here + x
    end
    if changed then
      fix, fixed = sub(value, start), a + x
    end
    seen = spec .. pack('<ddd', total, a, room)
  end

  if states then
    states[i], lives[i], olds[i] = state, ends, was
  end
  if changed and how ~= 'cut' and cost > 0 and fixed > now then
    fixes = fixes or {}
    fixes[i] = { own, fix, fixed }
  end
  told = told and told .. seen or seen
end

if not ok then
  if fixes then -- what the clock's steps and other numbers have made of a state is kept
    for i, fix in pairs(fixes) do
      keep(i, fix[1], fix[2], fix[3], false, now)
    end
  end
  return '0' .. seconds .. ',' .. micros .. ';' .. told
end
if states then
  for i = 1, n do
    if states[i] then
      keep(i, ARGV[2 * i], states[i], lives[i], olds[i], now)
    end
  end
elseif state then
  keep(1, ARGV[2], state, ends, was, now)
end
return '1' .. seconds .. ',' .. micros .. ';' .. told
