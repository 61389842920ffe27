-- refund gives units back, never more than are in use.
--
-- ARGV: the time, or ''; then for each key what its value begins with, and the
-- charge, as for take. The answer is r; or nothing was done: o and the time, or
-- j and the number of a key.

local period, muldiv, whole, entries, logged, carry = rare()
local states, lives, specs = {}, {}, {}

for i = 1, #KEYS do
  local spec, charge = ARGV[2 * i], ARGV[2 * i + 1]
  local kind = sub(spec, 2, 2)
  local x, y, quota = unpack('<ddd', spec, 3)
  local cost, periodEnd = unpack('<d', charge, 1), nil
  if kind == 'd' then
    cost, periodEnd = period(charge, now)
    if not periodEnd then
      return 'o' .. seconds .. ',' .. micros
    end
  end

  local value = redis.pcall('GETRANGE', KEYS[i], '0', longest)
  if type(value) == 'table' then -- an error
    return string.find(value.err, 'WRONGTYPE', 1, true) and 'j' .. i or value
  end
  if value == '' and redis.call('EXISTS', KEYS[i]) == 1 then
    return 'j' .. i
  end
  if value ~= '' and cost > 0 then
    if string.find(value, spec, 1, true) ~= 1 then
      local state, how = carry(value, kind, x, y, quota, now, periodEnd, 1)
      if not state then
        return 'j' .. i
      elseif how == 'new' then
        value = spec .. state
      else -- what is in use stays under the numbers of the value
        spec, kind = sub(value, 1, start - 1), sub(value, 2, 2)
        x, y, quota = unpack('<ddd', spec, 3)
      end
    end
    specs[i] = spec
    lives[i] = 0 -- equals new: the key goes
    if kind == 'l' or kind == 's' then
      local times, counts = entries(value, x, y, now)
      if not times then
        return 'j' .. i
      end
      local m = #times
      while m > 0 and cost > 0 do
        local back = math.min(cost, counts[m])
        cost, counts[m] = cost - back, counts[m] - back
        if counts[m] == 0 then
          times[m], counts[m] = nil, nil
          m = m - 1
        end
      end
      if m > 0 then
        states[i], lives[i] = logged(times, counts), times[m] + x
      end
    else
      if #value ~= (kind == 'c' and 50 or 42) then
        return 'j' .. i
      end
      local a, b = unpack('<dd', value, start)
      local c = kind == 'c' and unpack('<d', value, start + 16) or 0
      if not whole(a) or not whole(b) or not whole(c) or kind == 'b' and b >= x then
        return 'j' .. i
      end
      if a > now and kind == 'c' then
        local from = a - 2 * x
        if now < from then
          c = math.min(b + c, 4294967295)
          from, b = floor(now / x) * x, 0
        elseif now >= from + x then
          from, b, c = from + x, c, 0
        end
        b = math.max(b - math.max(cost - c, 0), 0)
        c = math.max(c - cost, 0)
        if b + c > 0 then
          states[i], lives[i] = pack('<ddd', from + 2 * x, b, c), from + 2 * x
        end
      elseif a > now and kind ~= 'b' then
        if cost < b then
          states[i], lives[i] = pack('<dd', a, b - cost), a
        end
      elseif a > now and cost < quota then
        local full = quota * y
        local span = math.ceil(full / x)
        local over = x * span - full
        if a - now > span or a - now == span and b < over then
          a, b = now + span, over
        end
        local step = floor(y / x)
        a, b = a - cost * step, b + cost * (y - step * x)
        if b >= x then
          local more = floor(b / x)
          a, b = a - more, b - more * x
        end
        if a > now then
          states[i], lives[i] = pack('<dd', a, b), a
        end
      end
    end
  end
end

for i, a in pairs(lives) do
  if a > now then
    keep(i, specs[i], states[i], a, false, now)
  else
    redis.call('DEL', KEYS[i])
  end
end
return 'r'
