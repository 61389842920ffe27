-- settle corrects a count.
--
-- ARGV: the time, as in spend; what to add, which may be negative; what the count
-- is to be at least; and the end of the period, as in spend.
--
-- The answer is 1 and the count after that; or x, or j.

local used = count(KEYS[1])
if not used then
  return 'j'
end
local least, sum = ARGV[3] + 0, nil
if ARGV[2] + 0 > exact - used then
  return 'x'
end
sum = math.max(used + ARGV[2], least, 0)
if sum ~= used then
  keep(KEYS[1], sum)
end
return format('1,%.0f', sum)
