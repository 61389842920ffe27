-- refund gives units back, never more than are in use.
--
-- ARGV: the time, or ''; then for each key what its value begins with, and the
-- units, as for take. The answer is r; or nothing was done: o and the time, or
-- j and the number of a key.

local given = ARGV[1]
local seconds, micros = '0', given
if given == '' then
  local t = redis.call('TIME')
  seconds, micros = t[1], t[2]
end
local now = seconds * 1000000 + micros
local muldiv, entries, logged, carry = rare()
local more = given == '' and 2 or 60000 -- see take
local states, lives = {}, {}

for i = 1, #KEYS do
  local spec, cost = ARGV[2 * i], ARGV[2 * i + 1]
  local kind, x, y, quota = match(spec, '^1(%l)(%d+),(%d+),(%d+);')
  x, y, quota = x + 0, y + 0, quota + 0
  local periodEnd
  if kind == 'd' then
    local bounds, low
    cost, bounds = match(cost, '^(%d+)(.*)$')
    for bound in string.gmatch(bounds, '%d+') do
      bound = bound + 0
      if low and low <= now and now < bound then
        periodEnd = bound
      end
      low = bound
    end
    if not periodEnd then
      return 'o' .. seconds .. ',' .. micros
    end
  end
  cost = cost + 0

  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then -- an error
    return find(value.err, 'WRONGTYPE', 1, true) and 'j' .. i or value
  end
  if value and cost > 0 then
    local rest
    if find(value, spec, 1, true) == 1 then
      rest = sub(value, #spec + 1)
    else
      rest = carry(value, kind, x, y, quota, now, periodEnd)
    end
    if not rest then
      return 'j' .. i
    end
    lives[i] = 0 -- equals new: the key goes
    if kind == 'l' or kind == 's' then
      local times, counts = entries(rest, x, y, now)
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
      local a, b, c = match(rest, '^(%d+),(%d+),?(%d*)$')
      if not a or (c ~= '') ~= (kind == 'c') then
        return 'j' .. i
      end
      a, b = a + 0, b + 0
      if a > most or b > most or kind == 'b' and b >= x then
        return 'j' .. i
      end
      if a > now and kind == 'c' then
        c = c + 0
        local start = a - 2 * x
        if now < start then
          c = math.min(b + c, 4294967295)
      start, b = floor(now / x) * x, 0
        elseif now >= start + x then
          start, b, c = start + x, c, 0
        end
        b = math.max(b - math.max(cost - c, 0), 0)
        c = math.max(c - cost, 0)
        if b + c > 0 then
          states[i], lives[i] = format('%d,%d,%d', start + 2 * x, b, c), start + 2 * x
        end
      elseif a > now and kind ~= 'b' then
        if cost < b then
          states[i], lives[i] = format('%d,%d', a, b - cost), a
        end
      elseif a > now and cost < quota then
        local full = quota * y
        local span = ceil(full / x)
        local over = x * span - full
        if a - now > span or a - now == span and b < over then
          a, b = now + span, over
        end
        local step = floor(y / x)
        a, b = a - cost * step, b + cost * (y - step * x)
        if b >= x then
          local whole = floor(b / x)
          a, b = a - whole, b - whole * x
        end
        if a > now then
          states[i], lives[i] = format('%d,%d', a, b), a
        end
      end
    end
  end
end

for i, a in pairs(lives) do
  if a > now then
    redis.call('SET', KEYS[i], ARGV[2 * i] .. states[i], 'PX', floor((a - now) / 1000) + more)
  else
    redis.call('DEL', KEYS[i])
  end
end
return 'r'
