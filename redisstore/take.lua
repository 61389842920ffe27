-- take charges all of KEYS or none of them.
--
-- ARGV: the time, or '' for Redis's; then for each key what its value begins with,
-- with the semicolon, and the cost. Cost 0 asks whether 1 would pass and writes
-- nothing. A calendar's cost is followed by five ends of periods about now.
--
-- The answer is text: 1 if all were charged, else 0; the time, as seconds and
-- microseconds; and for each key, after a semicolon, its state as it was before,
-- from which the caller works out the rest. Of a log that is: all units, the
-- last entry's time, and when there will be room, or 0.
--
-- Or nothing was done: o and the time if a calendar's periods lie elsewhere;
-- j and the number of a key, the first being 1, that holds no value of ours.

local n, given = #KEYS, ARGV[1]
local seconds, micros = '0', given
if given == '' then
  local t = redis.call('TIME')
  seconds, micros = t[1], t[2]
end
local now = seconds * 1000000 + micros
local muldiv, entries, logged, carry
local ok, states, lives, fixes = true, nil, nil, nil
local told -- the states before
local state, life -- of a key that is charged; of several in states and lives
if n > 1 then
  states, lives = { false, false, false }, { 0, 0, 0 }
end

for i = 1, n do
  local spec, cost = ARGV[2 * i], ARGV[2 * i + 1]
  local value = redis.pcall('GET', KEYS[i])
  local kind, x, y, quota = match(spec, '^1(%l)(%d+),(%d+),(%d+);')
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
      return 'o' .. seconds .. ',' .. micros
    end
  end
  cost = cost + 0
  local ask = cost > 0 and cost or 1

  local rest, changed = '', false
  if value then
    if type(value) == 'table' then -- an error
      return find(value.err, 'WRONGTYPE', 1, true) and 'j' .. i or value
    end
    if find(value, spec, 1, true) == 1 then
      rest = sub(value, #spec + 1)
    else
      if not carry then
        muldiv, entries, logged, carry = rare()
      end
      rest, changed = carry(value, kind, x, y, quota, now, periodEnd), true
    end
    if not rest or rest == '' then
      return 'j' .. i
    end
  end

  state, life = false, 0
  local fix, fixed -- what is to be kept if nothing is charged
  local a, b = 0, 0
  if kind == 'l' or kind == 's' then
    -- The text is walked through only as far as entries have expired.
    local total, from = 0, 1
    if rest ~= '' then
      a, b, total, from = match(rest, '^(%d+),(%d+),(%d+);()')
      if not a or a + 0 > most or b + 0 > most or total + 0 > most then
        return 'j' .. i
      end
      a, b, total = a + 0, b + 0, total + 0
    end
    local here = now
    if y > 0 then
      here = (floor(now / y) + 1) * y
    end
    if a > here then -- the clock has stepped back
      if not entries then
        muldiv, entries, logged, carry = rare()
      end
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
    local room = 0
    if ask > quota then
      ok = false
    elseif ask > quota - total then
      ok = false
      local need = total + ask - quota
      while at and room == 0 do
        if at + 0 > a then
          return 'j' .. i
        end
        need = need - units
        if need <= 0 then
          room = at + x
        end
        at, units, after = match(rest, '^(%d+),(%d+);()', after)
      end
      if room == 0 then
        room = a + x
      end
    elseif cost > 0 then
      local mine, older = cost, sub(rest, from)
      if a == here then
        mine = b + cost
      elseif total > 0 then
        older = older .. format('%d,%d;', a, b)
      end
      state, life = format('%d,%d,%d;', here, mine, total + cost) .. older, here + x
    end
    fix, fixed = rest, a + x
    rest = format('%d,%d,%d', total, a, room)
  elseif kind == 'c' then
    local c = 0
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
      start, b, changed = floor(now / x) * x, 0, true
    elseif now >= start + x then
      start, b, c = start + x, c, 0
    end
    local used = c
    if b > 0 then
      local part = x - (now - start)
      if b * part < most then
        used = used + floor(b * part / x)
      else
        if not muldiv then
          muldiv, entries, logged, carry = rare()
        end
        used = used + muldiv(b, part, x)
      end
    end
    if changed then
      fix, fixed = format('%d,%d,%d', start + 2 * x, b, c), b + c > 0 and start + 2 * x or 0
    end
    if ask > quota - used then
      ok = false
    elseif cost > 0 then
      life = start + 2 * x
      state = format('%d,%d,%d', life, b, c + cost)
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
      if changed then
        fix, fixed = format('%d,%d', a, b), a
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
          state, life = format('%d,%d', a, b), a
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
      if changed then
        fix, fixed = format('%d,%d', a, b), a
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
        state, life = format('%d,%d', a, b + cost), a
      end
    end
  end
  if states then
    states[i], lives[i] = state, life
  end
  if changed and cost > 0 and fixed > now then
    fixes = fixes or {}
    fixes[i] = { fix, fixed }
  end
  told = i == 1 and rest or told .. ';' .. rest
end

-- Never shorter than the state's life, on a clock that tells whole milliseconds
-- and was read a little before. A time that was passed does not run.
local more = given == '' and 2 or 60000
if not ok then
  if fixes then -- what the clock's steps and new numbers have made of a state is kept
    for i, fix in pairs(fixes) do
      redis.call('SET', KEYS[i], ARGV[2 * i] .. fix[1], 'PX', floor((fix[2] - now) / 1000) + more)
    end
  end
  return '0' .. seconds .. ',' .. micros .. ';' .. told
end
if states then
  for i = 1, n do
    if states[i] then
      redis.call('SET', KEYS[i], ARGV[2 * i] .. states[i], 'PX', floor((lives[i] - now) / 1000) + more)
    end
  end
elseif state then
  redis.call('SET', KEYS[1], ARGV[2] .. state, 'PX', floor((life - now) / 1000) + more)
end
return '1' .. seconds .. ',' .. micros .. ';' .. told
