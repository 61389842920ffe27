-- A value is 1 and a letter, and then numbers:
--
--   1<kind> x y quota  state
--
-- 1 is the version. x, y and quota are those of the limit that wrote it, so that
-- nobody reads another limit's state as its own. Each number is a double in eight
-- bytes, the lowest first. All times are microseconds; all numbers are whole, not
-- negative, and at most 2^53, to which a double is exact. So a state begins at
-- the same place everywhere, and most have one length: it is written over the
-- one before. Numbers as text take three times as long to read and to write.
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
-- An older entry is a time and units; and the oldest comes first. internal/rule says
-- what the rules are; these are the same in doubles.

local floor, sub = math.floor, string.sub
local most = 9007199254740992 -- 2^53
local start, offset = 27, '26' -- of the state
local longest = '20000' -- what is read of a value: none has as many bytes

-- Where there is no struct, as in miniredis, this does what is needed of it. What
-- is not a whole number reads as a negative one.
local struct = rawget(_G, 'struct') or (function()
  local char, two = string.char, 4503599627370496 -- 2^52
  local struct = {}

  function struct.unpack(format, text, at)
    if format == '<' then
      return
    end
    local a, b, c, d, e, f, g, h = string.byte(text, at, at + 7)
    local exponent = h * 16 + floor(g / 16)
    local number = (((((g % 16 * 256 + f) * 256 + e) * 256 + d) * 256 + c) * 256 + b) * 256 + a
    if exponent >= 2047 then -- negative, or no number
      number = -1
    elseif exponent > 0 then
      number = math.ldexp(number + two, exponent - 1075)
    elseif number > 0 then -- next to nothing
      number = -1
    end
    return number, struct.unpack(sub(format, 1, -2), text, at + 8)
  end

  function struct.pack(format, number, ...)
    if not number then
      return ''
    end
    local part, exponent = 0, 0
    if number > 0 then
      part, exponent = math.frexp(number)
      part, exponent = (part * 2 - 1) * two, exponent + 1022
    end
    local bytes = {}
    for i = 1, 6 do
      bytes[i] = char(part % 256)
      part = floor(part / 256)
    end
    return table.concat(bytes) .. char(exponent % 16 * 16 + part, floor(exponent / 16)) .. struct.pack(format, ...)
  end

  return struct
end)()
local pack, unpack = struct.pack, struct.unpack

-- keep writes a state that ends then under the numbers of spec, over one of the
-- same numbers that has ended at was, or over anything.
--
-- A key outlives its state by one to six seconds: it goes at the end of the slice
-- of four that the instant a second after the state's end falls into. So it need
-- not be told to live longer each time that the end moves. As this holds for every
-- value that was ever written, a key whose old state ends in the same slice
-- lives long enough already. Its life is told on a clock of whole milliseconds,
-- which was read a little before. A time that was passed does not run.
--
-- One charge in 64 tells it anyway: somebody may have made the key permanent.
local function keep(i, spec, state, ends, was, now)
  local slice = ends + 1048576
  slice = slice - slice % 4194304
  if was and was + 1048576 >= slice and was + 1048576 < slice + 4194304 and now % 64 > 0 then
    redis.call('SETRANGE', KEYS[i], offset, state)
  else
    local life = floor((slice + 4194304 - now) / 1000) + (ARGV[1] == '' and 2 or 60000)
    redis.call('SET', KEYS[i], spec .. state, 'PX', life)
  end
end

-- rare returns what few decisions need, so that the others do not have to make
-- these functions.
local function rare()
  local ceil = math.ceil

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

  -- period returns the cost, when the period ends that now falls into, and when the
  -- next one does; of a calendar's charge, which tells five such ends.
  local function period(charge, now)
    local cost, a, b, c, d, e = unpack('<dddddd', charge, 1)
    if now < a or now >= d then
      return cost
    elseif now < b then
      return cost, b, c
    elseif now < c then
      return cost, c, d
    end
    return cost, d, e
  end

  -- stamp returns when a unit admitted now is taken to have come.
  local function stamp(now, cell)
    return cell == 0 and now or (floor(now / cell) + 1) * cell
  end

  local function whole(number)
    return number >= 0 and number <= most and number % 1 == 0
  end

  -- entries returns the times and units of a log, oldest first, without those that
  -- have expired, and with none ahead of the clock. It returns nil for junk.
  local function entries(value, window, cell, now)
    local size = #value
    if size < 50 or (size - 50) % 16 > 0 then
      return nil
    end
    local times, counts, n = {}, {}, 0
    for at = 51, size, 16 do
      n = n + 1
      times[n], counts[n] = unpack('<dd', value, at)
    end
    n = n + 1
    local total
    times[n], counts[n], total = unpack('<ddd', value, start)
    if not whole(total) then
      return nil
    end
    for i = 1, n do
      if not whole(times[i]) or not whole(counts[i]) or i > 1 and times[i] < times[i - 1] then
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

  -- logged returns the state of entries.
  local function logged(times, counts)
    local n, total, text = #times, 0, {}
    if n == 0 then
      return pack('<ddd', 0, 0, 0)
    end
    for i = 1, n do
      total = total + counts[i]
      text[i + 1] = pack('<dd', times[i], counts[i])
    end
    text[1] = pack('<ddd', times[n], counts[n], total)
    text[n + 1] = nil
    return table.concat(text)
  end

  -- clockEnd returns the end of the window that now falls into.
  local function clockEnd(now, window, shift)
    return (floor((now + shift) / window) + 1) * window - shift
  end

  -- started returns the state of a new key that was just charged used units.
  local function started(kind, x, y, quota, now, used, periodEnd)
    local long = kind == 'l' or kind == 's'
    used = math.min(used, quota)
    if used == 0 then
      return (long or kind == 'c') and pack('<ddd', 0, 0, 0) or pack('<dd', 0, 0)
    elseif kind == 'b' then
      local ahead = ceil(used * y / x)
      return pack('<dd', now + ahead, ahead * x - used * y)
    elseif kind == 'f' then
      return pack('<dd', now + x, used)
    elseif kind == 'w' then
      return pack('<dd', clockEnd(now, x, y), used)
    elseif kind == 'c' then
      return pack('<ddd', (floor(now / x) + 2) * x, 0, used)
    elseif kind == 'd' then
      return pack('<dd', periodEnd, used)
    end
    return pack('<ddd', stamp(now, y), used, used)
  end

  -- carry turns a value that a limit with other numbers wrote into the state of
  -- this one. It returns the state, and how it came about:
  --
  --   same  only the quota differs, which a state does not depend on
  --   new   units in use stay in use
  --   cut   more is in use than this limit has: it is full, and cost units will not
  --         fit before they would by the numbers of the value
  --
  -- But for new, the value must stay as it is unless something is charged, or who
  -- asks with the larger limit would find less in use. If it has to be mended since
  -- the clock has stepped back, its own state and the end of that follow. It returns
  -- nil for junk.
  local function carry(value, kind, x, y, quota, now, periodEnd, cost)
    local was, size = sub(value, 2, 2), #value
    local short = size == 42 and string.find(was, '[bfwd]') or size == 50 and was == 'c'
    if sub(value, 1, 1) ~= '1' or size < 50 and not short then
      return nil
    end
    local ox, oy, oquota = unpack('<ddd', value, 3)
    if not whole(ox) or not whole(oy) or not whole(oquota) or ox == 0 or was == 'b' and not whole(oquota * oy) then
      return nil
    end
    local fits = math.max(quota - math.max(cost, 1), 0) -- that may be in use for cost to fit
    local mended, mendedEnds

    -- full returns a state with no room, and none for cost before the instant.
    local function full(at)
      if kind ~= 'b' then
        return started(kind, x, y, quota, now, quota, periodEnd), 'cut', mended, mendedEnds
      end
      local ahead = ceil(quota * y / x)
      local more = math.max(at - now - floor((quota - fits) * y / x), 0)
      return pack('<dd', now + ahead + more, ahead * x - quota * y), 'cut', mended, mendedEnds
    end

    local long = kind == 'l' or kind == 's'
    if was == 'l' or was == 's' then
      local times, counts = entries(value, ox, oy, now)
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
        return logged(at, units), 'new'
      elseif used > quota then
        if unpack('<d', value, start) > stamp(now, oy) then
          mended, mendedEnds = logged(times, counts), times[#times] + ox
        end
        local m = 1
        while m < #times and used - counts[m] > fits do
          used, m = used - counts[m], m + 1
        end
        return full(times[m] + ox)
      end
      return started(kind, x, y, quota, now, used, periodEnd), 'new'
    end
    if not short then
      return nil
    end
    local a, b = unpack('<dd', value, start)
    local c = was == 'c' and unpack('<d', value, start + 16) or 0
    if not whole(a) or not whole(b) or not whole(c) then
      return nil
    elseif was == kind and ox == x and oy == y then
      return sub(value, start), 'same'
    end
    local units = 0
    if was == 'b' then
      if oy == 0 or b >= ox then
        return nil
      end
      local span = ceil(oquota * oy / ox)
      local over = ox * span - oquota * oy
      if a - now > span or a - now == span and b < over then
        a, b = now + span, over
        mended, mendedEnds = pack('<dd', a, b), a
      end
      if a > now then
        local level = ox * (a - now) - b
        local used = floor(level / oy)
        local part = level - used * oy
        if used > quota or used == quota and part > 0 then
          return full(a - floor((b + fits * oy) / ox))
        elseif kind == 'b' then -- parts of a unit stay, rounded up to what this rate can tell
          local q, more = muldiv(y, part, oy)
          if more > 0 then
            q = q + 1
          end
          level = used * y + q
          local ahead = ceil(level / x)
          return pack('<dd', now + ahead, ahead * x - level), 'new'
        end
        units = part > 0 and used + 1 or used
      end
    elseif was == 'f' or was == 'w' or was == 'd' then
      if a > now then
        units = math.min(b, oquota)
        if was ~= 'd' and a - now > ox then
          a = now + ox
          mended, mendedEnds = pack('<dd', a, b), a
        end
      end
    elseif a > now then
      local since = now - (a - 2 * ox)
      if since < 0 then
        units = b + c
        a = (floor(now / ox) + 2) * ox
        mended, mendedEnds = pack('<ddd', a, 0, math.min(units, 4294967295)), a
      elseif since >= ox then
        units = muldiv(c, 2 * ox - since, ox)
      else
        units = c + muldiv(b, ox - since, ox)
      end
      units = math.min(units, oquota)
    end
    if units > quota then
      return full(a)
    end
    return started(kind, x, y, quota, now, units, periodEnd), 'new'
  end

  return period, muldiv, whole, entries, logged, carry
end
