-- A value is text:
--
--   1<kind><x>,<y>,<quota>;<state>
--
-- 1 is the version. What stands before the semicolon are the numbers of the limit
-- that wrote it, so that nobody reads another limit's state as its own. All
-- times are microseconds, all numbers whole and below 2^53, which a double
-- holds exactly.
--
--   kind                x            y               state
--   b  bucket           leaks a µs   a unit's weight empty from, overshoot
--   f  window, ToFirst  window       0               end, units
--   w  window, clock    window       shift           end, units
--   c  sliding counter  window       0               forgotten from, units before, units
--   d  calendar         1 day 2 month  zone          end, units
--   l  sliding log      window       0               last, its units, all units; then older entries
--   s  sliding buckets  window       cell            as the log
--
-- An older entry is <time>,<units>; and the oldest comes first. internal/rule says
-- what the rules are; these are the same in doubles.

local floor, ceil, format = math.floor, math.ceil, string.format
local find, match, sub = string.find, string.match, string.sub
local most = 9007199254740992 -- 2^53

-- rare returns what few decisions need, so that the others do not have to make
-- these functions.
local function rare()
  -- muldiv returns floor(a*b/c), and what remains, for b <= c.
  local function muldiv(a, b, c)
    if a * b < most then
      local q = floor(a * b / c)
      return q, a * b - q * c
    end
    if b == c then
      return a, 0
    end
    local bit, q, rest = 1, 0, 0
    while bit * 2 <= a do
      bit = bit * 2
    end
    while bit >= 1 do
      q = q * 2
      if rest >= c - rest then
        rest, q = rest - (c - rest), q + 1
      else
        rest = rest * 2
      end
      if a >= bit then
        a = a - bit
        if rest >= c - b then
          rest, q = rest - (c - b), q + 1
        else
          rest = rest + b
        end
      end
      bit = bit / 2
    end
    return q, rest
  end

  -- stamp returns when a unit admitted now is taken to have come.
  local function stamp(now, cell)
    return cell == 0 and now or (floor(now / cell) + 1) * cell
  end

  -- entries returns the times and units of a log, oldest first, without those that
  -- have expired, and with none ahead of the clock. It returns nil for junk.
  local function entries(rest, window, cell, now)
    local last, units, at = match(rest, '^(%d+),(%d+),%d+;()')
    if not last then
      return nil
    end
    local times, counts, n = {}, {}, 0
    while true do
      local t, u, after = match(rest, '^(%d+),(%d+);()', at)
      if not t then
        break
      end
      n = n + 1
      times[n], counts[n], at = t + 0, u + 0, after
    end
    if at <= #rest then
      return nil
    end
    n = n + 1
    times[n], counts[n] = last + 0, units + 0
    for i = 1, n do
      if times[i] > most or counts[i] > most or i > 1 and times[i] < times[i - 1] then
        return nil
      end
    end
    local latest = stamp(now, cell)
    if times[n] > latest then -- the clock has stepped back: what was later was now
      local ahead = 0
      while n > 0 and times[n] >= latest do
        ahead = ahead + counts[n]
        times[n], counts[n] = nil, nil
        n = n - 1
      end
      n = n + 1
      times[n], counts[n] = latest, ahead
    end
    local live, lives, m = {}, {}, 0
    for i = 1, n do
      if times[i] + window > now then
        m = m + 1
        live[m], lives[m] = times[i], counts[i]
      end
    end
    return live, lives
  end

  -- logged returns the text of entries.
  local function logged(times, counts)
    local n, total, text = #times, 0, {}
    if n == 0 then
      return '0,0,0;'
    end
    for i = 1, n do
      total = total + counts[i]
      text[i + 1] = format('%d,%d;', times[i], counts[i])
    end
    text[1] = format('%d,%d,%d;', times[n], counts[n], total)
    text[n + 1] = nil
    return table.concat(text)
  end

  -- clockEnd returns the end of the window that now falls into.
  local function clockEnd(now, window, shift)
    return (floor((now + shift) / window) + 1) * window - shift
  end

  -- started returns the state of a new key that was just charged used units.
  local function started(kind, x, y, quota, now, used, periodEnd)
    used = math.min(used, quota)
    if used == 0 then
      if kind == 'l' or kind == 's' then
        return '0,0,0;'
      end
      return kind == 'c' and '0,0,0' or '0,0'
    elseif kind == 'b' then
      local ahead = ceil(used * y / x)
      return format('%d,%d', now + ahead, ahead * x - used * y)
    elseif kind == 'f' then
      return format('%d,%d', now + x, used)
    elseif kind == 'w' then
      return format('%d,%d', clockEnd(now, x, y), used)
    elseif kind == 'c' then
      return format('%d,0,%d', (floor(now / x) + 2) * x, used)
    elseif kind == 'd' then
      return format('%d,%d', periodEnd, used)
    end
    return format('%d,%d,%d;', stamp(now, y), used, used)
  end

  -- carry turns a value that a limit with other numbers wrote into the state of
  -- this one: units in use stay in use, as far as they fit. It returns nil for
  -- junk.
  local function carry(value, kind, x, y, quota, now, periodEnd)
    local was, ox, oy, oquota, rest = match(value, '^1(%l)(%d+),(%d+),(%d+);(.*)$')
    if not was then
      return nil
    end
    ox, oy, oquota = ox + 0, oy + 0, oquota + 0
    local long = kind == 'l' or kind == 's'
    if ox == 0 or was == kind and ox == x and oy == y and not long then
      return ox > 0 and rest or nil
    end
    if was == 'l' or was == 's' then
      local times, counts = entries(rest, ox, oy, now)
      if not times then
        return nil
      end
      local used, at, units, n = 0, {}, {}, 0
      for i = 1, #times do
        used = used + counts[i]
        local t = stamp(math.min(times[i], now), y)
        if at[n] == t then
          units[n] = units[n] + counts[i]
        else
          n = n + 1
          at[n], units[n] = t, counts[i]
        end
      end
      if long then
        return logged(at, units)
      end
      return started(kind, x, y, quota, now, used, periodEnd)
    end
    local a, b, c = match(rest, '^(%d+),(%d+),?(%d*)$')
    if not a or (c ~= '') ~= (was == 'c') then
      return nil
    end
    a, b = a + 0, b + 0
    local used = 0
    if a > most or b > most then
      return nil
    elseif was == 'b' then
      if oy == 0 then
        return nil
      end
      local span = ceil(oquota * oy / ox)
      local over = ox * span - oquota * oy
      if a - now > span or a - now == span and b < over then
        a, b = now + span, over
      end
      if a > now then
        local level = ox * (a - now) - b
        local whole = floor(level / oy)
        local part = level - whole * oy
        if kind == 'b' then -- parts of a unit stay, rounded up to what this rate can tell
          local q, more = muldiv(y, part, oy)
          if more > 0 then
            q = q + 1
          end
          if whole < quota and whole * y + q < quota * y then
            level = whole * y + q
          else
            level = quota * y
          end
          local ahead = ceil(level / x)
          return format('%d,%d', now + ahead, ahead * x - level)
        end
        used = part > 0 and whole + 1 or whole
      end
    elseif was == 'f' or was == 'w' or was == 'd' then
      if a > now then
        used = math.min(b, oquota)
      end
    elseif was == 'c' then
      c = c + 0
      local start = a - 2 * ox
      if a > now then
        if now < start then
          used = b + c
        elseif now >= start + ox then
          used = muldiv(c, 2 * ox - (now - start), ox)
        else
          used = c + muldiv(b, ox - (now - start), ox)
        end
        used = math.min(used, oquota)
      end
    else
      return nil
    end
    return started(kind, x, y, quota, now, used, periodEnd)
  end

  return muldiv, entries, logged, carry
end
