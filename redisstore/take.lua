-- take charges all of KEYS or none of them.
--
-- ARGV: the time, or '' for Redis's; then for each key what its value begins with,
-- up to the semicolon, and the cost. Cost 0 asks whether 1 would pass and writes
-- nothing. A calendar's cost is followed by five ends of periods about now.
--
-- The answer is text: 1 if all were charged, else 0; the time, as seconds and
-- microseconds; and for each key, after a semicolon, its state as it was before,
-- from which the caller works out the rest. Of a log that is: all units, the
-- last entry's time, and when there will be room, or 0.
--
-- Or nothing was done: o and the time if a calendar's periods lie elsewhere;
-- j and the number of a key, the first being 1, that holds no value of ours.

local given = ARGV[1]
local now, told = clock(given)
local ok = true
local nexts, lives, fixes = {}, {}, nil

for i = 1, #KEYS do
  local spec, cost = ARGV[2 * i], ARGV[2 * i + 1]
  local value = redis.pcall('GET', KEYS[i])
  local kind, x, y, quota = match(spec, '^1(%l)(%d+),(%d+),(%d+)$')
  x, y, quota = x + 0, y + 0, quota + 0

  local periodEnd, periodNext
  if kind == 'd' then
    local bounds, low
    cost, bounds = match(cost, '^(%d+)(.*)$')
    for bound in string.gmatch(bounds, '%d+') do
      bound = bound + 0
      if periodEnd then
        periodNext = bound
        break
      elseif low and low <= now and now < bound then
        periodEnd = bound
      end
      low = bound
    end
    if not periodNext then
      return 'o' .. told
    end
  end
  cost = cost + 0
  local ask = cost > 0 and cost or 1

  local rest, changed = '', false
  if value then
    if type(value) == 'table' then
      return 'j' .. i
    end
    local n = #spec + 1
    if sub(value, 1, n) == spec .. ';' then
      rest = sub(value, n + 1)
    else
      rest = carry(value, kind, x, y, quota, now, periodEnd)
      changed = true
    end
    if not rest then
      return 'j' .. i
    end
  end

  local a, b, c = 0, 0, 0
  if kind == 'l' or kind == 's' then
    -- The text is walked through only as far as entries have expired.
    local from, total = 1, 0
    if rest ~= '' then
      a, b, c, from = match(rest, '^(%d+),(%d+),(%d+);()')
      if not a or a + 0 > most then
        return 'j' .. i
      end
      a, b, total = a + 0, b + 0, c + 0
    end
    local here = stamp(now, y)
    if a > here then
      local times, counts = entries(rest, x, y, now)
      if not times then
        return 'j' .. i
      end
      rest, changed = logged(times, counts), true
      a, b, total, from = match(rest, '^(%d+),(%d+),(%d+);()')
      a, b, total = a + 0, b + 0, total + 0
    end
    local at, units, after = match(rest, '^(%d+),(%d+);()', from)
    while at and at + x <= now do
      total, from = total - units, after
      at, units, after = match(rest, '^(%d+),(%d+);()', from)
    end
    if not at and from <= #rest then
      return 'j' .. i
    end
    if a + x <= now then
      a, b, total = 0, 0, 0
    end
    local wait = 0
    if ask > quota then
      ok = false
    elseif ask > quota - total then
      ok = false
      local need, p = total + ask - quota, from
      while wait == 0 do
        at, units, after = match(rest, '^(%d+),(%d+);()', p)
        if not at then
          wait = a + x
          break
        end
        need, p = need - units, after
        if need <= 0 then
          wait = at + x
        end
      end
    end
    if changed and cost > 0 then
      fixes = fixes or {}
      fixes[i] = { rest, a + x }
    end
    if ok and cost > 0 then
      local units, older = cost, sub(rest, from)
      if a == here then
        units = b + cost
      elseif total > 0 then
        older = older .. format('%d,%d;', a, b)
      end
      nexts[i], lives[i] = format('%d,%d,%d;', here, units, total + cost) .. older, here + x
    end
    rest = format('%d,%d,%d', total, a, wait)
  elseif kind == 'c' then
    if rest ~= '' then
      a, b, c = match(rest, '^(%d+),(%d+),(%d+)$')
      if not a then
        return 'j' .. i
      end
      a, b, c = a + 0, b + 0, c + 0
      if a > most or b > 4294967295 or c > 4294967295 then
        return 'j' .. i
      end
    end
    local start = a - 2 * x
    if a <= now then
      start, b, c = floor(now / x) * x, 0, 0
    elseif now < start then -- the clock has stepped back: the latest these can have come is now
      c = math.min(b + c, 4294967295)
      start, b = floor(now / x) * x, 0
      changed, a = true, start + 2 * x
    elseif now >= start + x then
      start, b, c = start + x, c, 0
    end
    local used = c
    if b > 0 then
      used = used + muldiv(b, x - (now - start), x)
    end
    if ask > quota - used then
      ok = false
    elseif cost > 0 then
      nexts[i], lives[i] = format('%d,%d,%d', start + 2 * x, b, c + cost), start + 2 * x
    end
    if changed and cost > 0 then
      fixes = fixes or {}
      fixes[i] = { format('%d,%d,%d', start + 2 * x, b, c), b + c > 0 and start + 2 * x or 0 }
    end
  else
    if rest ~= '' then
      a, b = match(rest, '^(%d+),(%d+)$')
      if not a then
        return 'j' .. i
      end
      a, b = a + 0, b + 0
      if a > most or b > most then
        return 'j' .. i
      end
    end
    if kind == 'b' then
      local full = quota * y
      local span = ceil(full / x)
      local over = x * span - full
      if b >= x then
        return 'j' .. i
      end
      if a - now > span or a - now == span and b < over then
        a, b, changed = now + span, over, true
      end
      if changed and cost > 0 then
        fixes = fixes or {}
        fixes[i] = { format('%d,%d', a, b), a }
      end
      if ask > quota then
        ok = false
      else
        if a <= now then
          a, b = now, 0
        end
        local step = floor(y / x)
        a, b = a + ask * step, b - ask * (y - step * x)
        if b < 0 then
          local more = ceil(-b / x)
          a, b = a + more, b + more * x
        end
        if a - now > span or a - now == span and b < over then
          ok = false
        elseif cost > 0 then
          nexts[i], lives[i] = format('%d,%d', a, b), a
        end
      end
    else
      if kind == 'd' then
        if a > periodNext then -- the clock has stepped back by more than a midnight
          a, changed = periodEnd, true
        end
      elseif a - now > x then
        a, changed = now + x, true
      end
      if changed and cost > 0 then
        fixes = fixes or {}
        fixes[i] = { format('%d,%d', a, b), a }
      end
      if a <= now then
        b = 0
        a = kind == 'f' and now + x or kind == 'w' and clockEnd(now, x, y) or periodEnd
      end
      if ask > quota - b then
        ok = false
      elseif cost > 0 then
        nexts[i], lives[i] = format('%d,%d', a, b + cost), a
      end
    end
  end
  told = told .. ';' .. rest
end

if ok then
  for i, state in pairs(nexts) do
    redis.call('SET', KEYS[i], ARGV[2 * i] .. ';' .. state, 'PX', lifetime(lives[i], now, given))
  end
  return '1' .. told
end
if fixes then -- what the clock's steps and changed limits have made of it is kept though nothing is charged
  for i, fix in pairs(fixes) do
    if fix[2] > now then
      redis.call('SET', KEYS[i], ARGV[2 * i] .. ';' .. fix[1], 'PX', lifetime(fix[2], now, given))
    end
  end
end
return '0' .. told
