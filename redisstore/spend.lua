-- spend adds to a count if the sum is within a limit.
--
-- A count is 1q and the number, up to 2^53, which a double holds exactly.
--
-- ARGV: the time, or '' for Redis's; the units; the limit, or '' for none; when the
-- period ends, or '' for never; and for how long the count is kept after that, in
-- milliseconds.
--
-- The answer is 1 if it was granted, else 0, and the count after that; x if it
-- would be more than can be counted; or j, for the key holds no count.

local n, limit = ARGV[2] + 0, ARGV[3]
local used = count(KEYS[1])
if not used then
  return 'j'
end
if limit ~= '' and math.max(n, 1) > limit - used or n == 0 and used == exact then
  return format('0,%.0f', used)
elseif n > exact - used then
  return 'x'
end
if n > 0 then
  used = used + n
  keep(KEYS[1], used)
end
return format('1,%.0f', used)
