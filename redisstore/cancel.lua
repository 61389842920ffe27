-- cancel gives a grant back: as if it had never been if it is the latest, else
-- its place, until that instant. Nothing happens after a hold, or with another
-- pace, or if all is there already.
--
-- ARGV: the time, or ''; and the receipt that reserve gave. The answer is 1 or 0,
-- or j.

local given = ARGV[1]
local now = clock(given)
local value = get(KEYS[1])
if not value then
  return '0'
end
local p = type(value) == 'string' and read(value, now)
if not p then
  return 'j'
end
local before = {}
for number in string.gmatch(ARGV[2], '%-?%d+') do
  before[#before + 1] = number + 0
end
local era, at, n, grant = before[1], before[2], before[3], before[4]
if p.changed or p.era ~= era then
  return '0'
end
if grant > 0 and grant == p.grants and at == p.last then
  p.grants, p.zi, p.zr, p.most, p.last, p.units = grant - 1, before[5], before[6], before[7], before[8], before[9]
elseif at > now and #p.at < places then
  local i = #p.at + 1
  while i > 1 and p.at[i - 1] > at do
    p.at[i], p.free[i] = p.at[i - 1], p.free[i - 1]
    i = i - 1
  end
  p.at[i], p.free[i] = at, n
else
  return '0'
end
write(KEYS[1], p, now, given)
return '1'
