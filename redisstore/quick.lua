-- The decisions that are made most, made quickly: all limits are buckets or
-- windows, and every key has a value that its limit left there with the same
-- numbers, or none. Whatever else there may be is left to take, which begins anew;
-- up to then nothing is written.

-- What value.lua and take.lua explain is here again, for to make their functions
-- takes as long as to decide.
local KEYS, ARGV = KEYS, ARGV
local pcall, find, floor, type = redis.pcall, string.find, math.floor, type
local struct = rawget(_G, 'struct')
local pack, unpack = struct and struct.pack, struct and struct.unpack

-- What a limit's value begins with, and a charge to it, are a pair in ARGV, from
-- ARGV[2] on. which has the number of each key's pair; nil: the key's own. values has
-- what was read of the keys, if they were read together.
local which, values
local pairsRead = {}

-- read returns the numbers of a pair: kind, spec, cost; of a bucket ahead, part, span,
-- over and x; of a window x, y and quota.
local function read(pair)
  local spec, charge = ARGV[2 * pair], ARGV[2 * pair + 1]
  local kind = string.sub(spec, 2, 2)
  local p = false
  if kind == 'b' then
    local cost, ahead, part, span, over = unpack('<ddddd', charge, 1)
    local x = unpack('<d', spec, 3)
    p = { true, spec, cost, ahead, part, span, over, x }
  elseif kind == 'f' or kind == 'w' then
    local x, y, quota = unpack('<ddd', spec, 3)
    p = { false, spec, unpack('<d', charge, 1), kind == 'f', x, y, quota }
  end
  pairsRead[pair] = p
  return p
end

-- quick decides on n keys after the first ones. It returns whether all were charged,
-- and puts their values as they were into seen; or it returns nil, or an error of
-- Redis, which comes before anything is written.
local function quick(first, n, seen)
  local ok = true
  local state, life = false, false -- of one key here, of several in tables
  local states, lives
  if n > 1 then
    states, lives = { false, false, false }, { false, false, false }
  end

  for i = first + 1, first + n do
    local pair = which and which[i] or i
    local p = pairsRead[pair]
    if p == nil then
      p = read(pair)
    end
    if not p then
      return nil
    end
    local value, spec, cost = values and (values[i] or ''), p[2], p[3]
    if not value then
      value = pcall('GETRANGE', KEYS[i], '0', '42')
    end
    local a, b, was = 0, 0, false
    if #value == 42 and find(value, spec, 1, true) == 1 then
      a, b = unpack('<dd', value, 27)
      if not (a >= 0 and a <= 9007199254740992 and a % 1 == 0 and b >= 0 and b <= 9007199254740992 and b % 1 == 0) then
        return nil
      end
      was = a + 1048576
    elseif value == '' and pcall('EXISTS', KEYS[i]) == 0 then
      value = '-'
    else
      return nil
    end

    local fits
    if p[1] then
      local part, span, over, x = p[5], p[6], p[7], p[8]
      if b > 0 and b >= x or a - now > span or a - now == span and b < over then
        return nil
      end
      if a <= now then
        a, b = now, 0
      end
      a, b = a + p[4], b + part
      if b > 0 and b >= x then
        a, b = a - 1, b - x
      end
      fits = not (a - now > span or a - now == span and b < over)
    else
      local x, y = p[5], p[6]
      if a - now > x then
        return nil
      end
      if a <= now then
        b = 0
        if p[4] then
          a = now + x
        else
          a = (floor((now + y) / x) + 1) * x - y
        end
      end
      fits = (cost > 0 and cost or 1) <= p[7] - b
      b = b + cost
    end

    state, life = false, false
    if not fits then
      ok = false
    elseif cost > 0 and ok then
      state = pack('<dd', a, b)
      local slice = a + 1048576
      slice = slice - slice % 4194304
      if not was or was < slice or was >= slice + 4194304 or now % 64 == 0 then
        state, life = spec .. state, floor((slice + 4194304 - now) / 1000) + (given == '' and 2 or 60000)
      end
    end
    if states then
      states[i - first], lives[i - first] = state, life
    end
    seen[i] = value
  end

  for i = 1, ok and n or 0 do
    if states then
      state, life = states[i], lives[i]
    end
    local done
    if life then
      done = pcall('SET', KEYS[first + i], state, 'PX', life)
    elseif state then
      done = pcall('SETRANGE', KEYS[first + i], '26', state)
    end
    if type(done) == 'table' and done.err then
      return done
    end
  end
  return ok
end

