-- The time that was passed in ARGV[1], in microseconds, or else Redis's own.
local given = ARGV[1]
local seconds, micros = '0', given
if given == '' then
  local t = redis.call('TIME')
  seconds, micros = t[1], t[2]
end
local now = seconds * 1000000 + micros

