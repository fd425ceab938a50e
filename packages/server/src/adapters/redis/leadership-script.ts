/**
 * Who leads which shard, in one script and one hash slot:
 *
 *   <prefix>:{leaders}:nodes      sorted set: node → when it is missed, by Redis's clock
 *   <prefix>:{leaders}:<shard>    the node that leads it; goes by itself when it is not renewed in time
 *
 * 1. throw away what no node writes: of another type, without an end, with one further away than any term
 * 2. renew the node; who is alive gives the even share
 * 3. renew what it leads, up to its share, and give up the rest
 * 4. below the share, take what nobody leads
 *
 * ARGV: node, its term in ms, the furthest end in ms. Answers: share, nodes alive, ms until the first lead or
 * node of somebody else runs out (-1: none), how much was thrown away, and the numbers of the shards that it
 * leads now.
 */
export const renewLeads = `
local nodes, id, term, furthest = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bad = 0
local function wrong(answer)
  return type(answer) == 'table' and answer.err and string.find(answer.err, 'WRONGTYPE') ~= nil
end
if wrong(redis.pcall('ZCARD', nodes)) then bad = bad + redis.call('DEL', nodes) end
bad = bad + redis.call('ZREMRANGEBYSCORE', nodes, '(' .. string.format('%.0f', now + furthest), '+inf')
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', now)
redis.call('ZADD', nodes, now + term, id)
local alive = redis.call('ZRANGE', nodes, 0, -1, 'WITHSCORES')
local first, rank, live = -1, 0, #alive / 2
local function sooner(ms)
  if first < 0 or ms < first then first = ms end
end
for i = 1, #alive, 2 do
  if alive[i] < id then rank = rank + 1 end
  if alive[i] ~= id then sooner(tonumber(alive[i + 1]) - now) end
end
local shards = #KEYS - 1
local share = math.floor(shards / live)
if rank < shards % live then share = share + 1 end
local leads, free = {}, {}
for shard = 0, shards - 1 do
  local key = KEYS[shard + 2]
  local leader = redis.pcall('GET', key)
  local left = leader and leader ~= id and redis.call('PTTL', key)
  if leader == id then
    if #leads < share then
      redis.call('PEXPIRE', key, term)
      leads[#leads + 1] = shard
    else
      redis.call('DEL', key)
    end
  elseif left and (wrong(leader) or left < 0 or left > furthest) then
    bad = bad + redis.call('DEL', key)
    free[#free + 1] = shard
  elseif left then
    sooner(left)
  else
    free[#free + 1] = shard
  end
end
for _, shard in ipairs(free) do
  if #leads >= share then break end
  if redis.call('SET', KEYS[shard + 2], id, 'NX', 'PX', term) then leads[#leads + 1] = shard end
end
local answer = { share, live, first, bad }
for _, shard in ipairs(leads) do answer[#answer + 1] = shard end
return answer`

/** Gives up what the node leads, and takes it off the list. */
export const giveUpLeads = `
redis.pcall('ZREM', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then redis.call('DEL', KEYS[i]) end
end
return 1`
