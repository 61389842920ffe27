-- Several decisions in one script, each as if it had come by itself, one after the
-- other: what Redis does for a script, for its arguments and for the clock, it
-- then does once.
--
-- ARGV: the time, or '' for Redis's; then pairs as take has them, each once; and
-- then a letter, and for each key the number of its pair, a byte, and 128 more if it
-- is the last of its decision. The letter is m if all keys may be read together,
-- before anything is written: none comes twice, and none is known to hold junk,
-- which may be long.
--
-- The answer has an element for each key; then the time, as seconds and
-- microseconds; and a letter for each decision: 1 or 0, and its keys' elements are
-- their values as take has them; or t, and the first of them is the answer of take,
-- or an error, which is that decision's alone.

local layout = ARGV[#ARGV]
local seen, told, first, n = {}, {}, 0, 0
which = { string.byte(layout, 2, #layout) }
if struct and string.sub(layout, 1, 1) == 'm' then
  values = pcall('MGET', _G.unpack(KEYS))
  if values.err then -- the user may not
    values = nil
  end
end
for i = 1, #which do
  n = n + 1
  local last = which[i] >= 128
  if last then
    which[i] = which[i] - 128
    local ok
    if struct then
      ok = quick(first, n, seen)
    end
    if ok == true or ok == false then
      told[#told + 1] = ok and '1' or '0'
    else
      local keys, args = {}, { given }
      for j = 1, n do
        keys[j] = KEYS[first + j]
        args[2 * j], args[2 * j + 1] = ARGV[2 * which[first + j]], ARGV[2 * which[first + j] + 1]
        seen[first + j] = ''
      end
      local good = true
      if ok == nil then -- else it is an error
        good, ok = _G.pcall(take, keys, args)
      end
      if not good and type(ok) ~= 'table' then
        ok = { err = 'ERR ' .. ok }
      end
      seen[first + 1] = ok
      told[#told + 1] = 't'
    end
    first, n = i, 0
  end
end
seen[#which + 1] = seconds .. ',' .. micros
seen[#which + 2] = table.concat(told)
return seen
