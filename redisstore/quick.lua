-- The decisions that are made most, made quickly: all limits are buckets or
-- windows, and every key has a value that its limit left there with the same
-- numbers, or none. Whatever else there may be is left to take, below, which
-- begins anew; up to then nothing is written.

local n = #KEYS

-- What value.lua and take.lua explain is here again, for to make their functions
-- takes as long as to decide.
local struct = rawget(_G, 'struct')
if struct and #ARGV == 2 * n + 1 then
  local pcall, sub, pack, unpack = redis.pcall, string.sub, struct.pack, struct.unpack
  local usual, ok, told = true, true, nil
  local state, life -- of one key here, of several in tables
  local states, lives
  if n > 1 then
    states, lives = { false, false, false }, { false, false, false }
  end

  for i = n, 1, -1 do
    local kind = sub(ARGV[2 * i], 2, 2)
    if kind ~= 'b' and kind ~= 'f' and kind ~= 'w' then
      usual = false
      break
    end
  end
  for i = 1, usual and n or 0 do
    local spec, charge = ARGV[2 * i], ARGV[2 * i + 1]
    local value = pcall('GETRANGE', KEYS[i], '0', '42')
    local a, b, was = 0, 0, false
    if #value == 42 and sub(value, 1, 26) == spec then
      a, b = unpack('<dd', value, 27)
      usual = a >= 0 and a <= 9007199254740992 and a % 1 == 0 and b >= 0 and b <= 9007199254740992 and b % 1 == 0
      was = a + 1048576
    elseif value == '' and pcall('EXISTS', KEYS[i]) == 0 then
      value = '-'
    else
      usual = false
    end
    if not usual then
      break
    end

    local fits, cost = true, nil
    if #charge == 40 then -- a bucket
      local x = 0
      local ahead, part, span, over
      cost, ahead, part, span, over = unpack('<ddddd', charge, 1)
      if b > 0 or part > 0 then
        x = unpack('<d', spec, 3)
        usual = b < x
      end
      if a - now > span or a - now == span and b < over then
        usual = false
      end
      if a <= now then
        a, b = now, 0
      end
      a, b = a + ahead, b + part
      if x > 0 and b >= x then
        a, b = a - 1, b - x
      end
      fits = not (a - now > span or a - now == span and b < over)
    else
      local x, y, quota = unpack('<ddd', spec, 3)
      cost = unpack('<d', charge, 1)
      usual = a - now <= x
      if a <= now then
        b = 0
        if sub(spec, 2, 2) == 'f' then
          a = now + x
        else
          a = (math.floor((now + y) / x) + 1) * x - y
        end
      end
      fits = (cost > 0 and cost or 1) <= quota - b
      b = b + cost
    end
    if not usual then
      break
    end

    state, life = false, false
    if not fits then
      ok = false
    elseif cost > 0 then
      state = pack('<dd', a, b)
      local slice = a + 1048576
      slice = slice - slice % 4194304
      if not was or was < slice or was >= slice + 4194304 or now % 64 == 0 then
        state, life = spec .. state, math.floor((slice + 4194304 - now) / 1000) + (given == '' and 2 or 60000)
      end
    end
    if states then
      states[i], lives[i] = state, life
    end
    told = told and told .. value or value
  end

  if usual then
    if ok then
      for i = 1, n do
        if states then
          state, life = states[i], lives[i]
        end
        if life then
          redis.call('SET', KEYS[i], state, 'PX', life)
        elseif state then
          redis.call('SETRANGE', KEYS[i], '26', state)
        end
      end
    end
    return (ok and '1' or '0') .. seconds .. ',' .. micros .. ';' .. told
  end
end

