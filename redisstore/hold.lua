-- hold makes sure that nobody is granted an instant before it ends. The bucket is
-- then empty but for one unit. A hold gets no shorter.
--
-- ARGV: the time, or ''; and the microseconds. The answer is 1, or 0 if a longer
-- hold stands, or j.

local given = ARGV[1]
local now = clock(given)
local till = now + ARGV[2]
local value = get(KEYS[1])
local p
if value then
  p = type(value) == 'string' and read(value, now)
  if not p then
    return 'j'
  end
  if till <= p.hold then
    if p.changed then
      write(KEYS[1], p, now, given)
    end
    return '0'
  end
else
  p = { kind = 'p', x = 0, y = 0, burst = 0, era = 0, grants = 0, zi = 0, zr = 0, most = 0, last = 0, units = 0 }
end
if p.x > 0 and p.kind == 'p' then
  local zi, zr = minus(till, 0, p.y, p.x)
  p.zi, p.zr = later(p.zi, p.zr, zi, zr)
end
p.hold = till
forget(p, now)
write(KEYS[1], p, now, given)
return '1'
