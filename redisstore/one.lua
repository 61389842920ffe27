-- One decision: quickly if that can be.

local seen = {}
local ok
if struct and #ARGV == 2 * #KEYS + 1 then
  ok = quick(0, #KEYS, seen)
end
if ok == nil then
  return take(KEYS, ARGV)
elseif type(ok) == 'table' then -- an error
  return ok
end
return (ok and '1' or '0') .. seconds .. ',' .. micros .. ';' .. table.concat(seen)
