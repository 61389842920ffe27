local format = string.format
local exact = 9007199254740992 -- 2^53

-- count returns what was used, or nil for junk.
local function count(key)
  local value = redis.pcall('GETRANGE', key, '0', '32') -- longer is junk
  if value == '' and redis.call('EXISTS', key) == 0 then
    return 0
  end
  local used = type(value) == 'string' and string.match(value, '^1q(%d+)$')
  used = used and used + 0
  return used and used <= exact and used or nil
end

-- keep writes a count. It goes some time after the period has ended, or after now
-- if that is later: a clock elsewhere may be slow.
local function keep(key, used)
  local value, over = format('1q%.0f', used), ARGV[4]
  if over == '' then
    redis.call('SET', key, value)
    return
  end
  local now = ARGV[1]
  if now == '' then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  else
    now = math.floor(now / 1000)
  end
  redis.call('SET', key, value, 'PX', format('%.0f', math.max(over - now, 0) + ARGV[5]))
end
