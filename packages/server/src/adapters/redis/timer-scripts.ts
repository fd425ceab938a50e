/**
 * The timers of one shard in Redis, all keys in one hash slot:
 *
 *   <prefix>:{<shard>}:timers     sorted set: timer → due instant <prefix>:{<shard>}:inflight   sorted set:
 *   timer that is being fired → when it comes back if nobody settles it <prefix>:{<shard>}:index      hash:
 *   `mark` of whoever built it, and `until`, the due instant up to which it is
 *                                 complete
 *
 * A timer is written as its id followed by the rest (timer-text.ts), so timers of one instant stand in the
 * order of their ids. Every script that trusts the index checks the mark first: without it the index was
 * lost, or built anew.
 */

/** What is being fired comes back where its time is over. */
const bringBack = (untilMs: string): string => `
for _, back in ipairs(redis.call('ZRANGEBYSCORE', inflight, '-inf', ${untilMs})) do
  local due = string.match(string.sub(back, 37), '^%[(%-?[%d.e+]+)')
  local score = due and tonumber(due)
  if score and math.abs(score) < 1e15 then redis.call('ZADD', timers, score, back) end
  redis.call('ZREM', inflight, back)
end`

/** ARGV: mark, database time ms, due instant and id after which to read, instant before which, how many. */
export const readTimers = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
local mark, now, dueMs, id, beforeMs, limit =
  ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('HGET', index, 'mark') ~= mark then return 'lost' end
${bringBack('now')}
local low = dueMs == '-inf' and 0 or redis.call('ZCOUNT', timers, '-inf', '(' .. dueMs)
local high = dueMs == '-inf' and 0 or redis.call('ZCOUNT', timers, '-inf', dueMs)
while low < high do
  local middle = math.floor((low + high) / 2)
  local found = redis.call('ZRANGE', timers, middle, middle)[1]
  if string.sub(found, 1, 36) > id then high = middle else low = middle + 1 end
end
local found = redis.call('ZRANGE', timers, low, low + limit - 1, 'WITHSCORES')
local answer = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) >= beforeMs then break end
  answer[#answer + 1] = found[i]
end
return answer`

/** ARGV: mark, until, timers as score and member in turn. Puts them in; the index reaches to `until` now. */
export const addTimers = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', index, 'mark') ~= ARGV[1] then return 'lost' end
for i = 3, #ARGV, 2 do
  if not redis.call('ZSCORE', inflight, ARGV[i + 1]) then redis.call('ZADD', timers, ARGV[i], ARGV[i + 1]) end
end
if ARGV[2] ~= '' then redis.call('HSET', index, 'until', ARGV[2]) end
return 'ok'`

/** ARGV: mark, overdue timers as score and member in turn. Puts in what is missing, and answers that. */
export const mendTimers = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', index, 'mark') ~= ARGV[1] then return 'lost' end
local missing = {}
for i = 2, #ARGV, 2 do
  local timer = ARGV[i + 1]
  if not redis.call('ZSCORE', timers, timer) and not redis.call('ZSCORE', inflight, timer) then
    redis.call('ZADD', timers, ARGV[i], timer)
    missing[#missing + 1] = timer
  end
end
return missing`

/** ARGV: mark, when they come back, timers. Moves those that stand there to those that are being fired. */
export const takeTimers = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', index, 'mark') ~= ARGV[1] then return 'lost' end
for i = 3, #ARGV do
  redis.call('ZREM', timers, ARGV[i])
  redis.call('ZADD', inflight, ARGV[2], ARGV[i])
end
return 'ok'`

/** ARGV: mark, how many are gone, those, then where others stand now, as score and member in turn. */
export const settleTimers = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', index, 'mark') ~= ARGV[1] then return 'lost' end
local gone = tonumber(ARGV[2])
for i = 3, gone + 2 do
  redis.call('ZREM', timers, ARGV[i])
  redis.call('ZREM', inflight, ARGV[i])
end
for i = gone + 3, #ARGV, 2 do redis.call('ZADD', timers, ARGV[i], ARGV[i + 1]) end
return 'ok'`

/**
 * ARGV: mark, `anew` or nothing, the furthest reach that can be. Answers mark and reach of the index that is
 * there; all that was being fired comes back, since whoever did it no longer holds the shard. Builds an empty
 * one where there is none, or anew, or where one is there that nobody built: a third part of the answer
 * tells.
 */
export const openIndex = `
local timers, inflight, index = KEYS[1], KEYS[2], KEYS[3]
local function wrong(answer)
  return type(answer) == 'table' and answer.err and string.find(answer.err, 'WRONGTYPE') ~= nil
end
if wrong(redis.pcall('HGET', index, 'mark')) or wrong(redis.pcall('ZCARD', timers))
  or wrong(redis.pcall('ZCARD', inflight)) then
  redis.call('DEL', timers, inflight, index)
  redis.call('HSET', index, 'mark', ARGV[1], 'until', '-inf')
  return { ARGV[1], '-inf', 'mended' }
end
local mark, reach = redis.call('HGET', index, 'mark'), redis.call('HGET', index, 'until')
local reachMs = reach and tonumber(reach)
local strange = reach and reach ~= '-inf' and not (reachMs and reachMs <= tonumber(ARGV[3]))
if strange then mark = false end
if mark and reach and ARGV[2] ~= 'anew' then
  ${bringBack("'+inf'")}
  return { mark, reach }
end
redis.call('DEL', timers, inflight)
redis.call('HSET', index, 'mark', ARGV[1], 'until', '-inf')
return { ARGV[1], '-inf', strange and 'mended' or nil }`
