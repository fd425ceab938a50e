/**
 * Leadership by Redis, terms by Postgres.
 *
 *   1. Redis says which shards this node leads (leadership-script.ts)
 *   2. Postgres begins a term for those that are new, and renews the node
 *   3. what stays without a holder in Postgres for two terms is taken there, whatever Redis says: it may
 *      give shards to a node that is none
 *
 * Whoever leads by Redis but has no term yet holds nothing, and whoever has the term fires, whatever Redis
 * says: Redis may lose or double everything, and costs time only. While it is away the nodes lead by
 * Postgres; a node that is cut off from Redis alone keeps what it holds until another, who is not, takes
 * it.
 */
import { shardCount } from '../../domain/shard.ts'
import type { HeldShard, Leadership, TermLedger } from '../../ports/leadership.ts'
import { giveUpLeads, renewLeads } from './leadership-script.ts'
import { RedisAway, type RedisLink } from './redis-link.ts'
import { createScript } from './script.ts'

/** In terms: an end further away than that was written by no node, even while the term is being changed. */
const furthestTerms = 3
/** In terms: how long Redis may leave a shard to nobody. */
const patienceTerms = 2

export function createRedisLeadership(options: {
  redis: RedisLink
  terms: TermLedger
  /** While Redis is away. */
  otherwise: Leadership
  prefix: string
}): Leadership {
  const { redis, terms, otherwise } = options
  const space = `${options.prefix}:{leaders}`
  const keys = [`${space}:nodes`, ...Array.from({ length: shardCount }, (_, shard) => `${space}:${shard}`)]
  const renewing = createScript(redis, renewLeads)
  const givingUp = createScript(redis, giveUpLeads)
  const unled = createUnled(redis)

  async function leads(nodeId: string, termMs: number): Promise<readonly number[] | undefined> {
    try {
      const answer = await renewing(keys, [nodeId, termMs, furthestTerms * termMs])
      return Array.isArray(answer) ? answer.map(Number) : undefined
    } catch (error) {
      if (error instanceof RedisAway) return undefined
      throw error
    }
  }

  return {
    async renew(node, termMs) {
      const answer = await leads(node.id, termMs)
      if (answer === undefined) {
        unled.forget()
        return otherwise.renew(node, termMs)
      }
      const [share = 0, liveNodes = 1, nextExpiryMs = -1, thrownAway = 0, ...shards] = answer
      if (thrownAway > 0) redis.mended(space, thrownAway)
      const { held, free, nowMs } = await terms.hold(node, { shards, others: unled.asked() }, termMs)
      unled.note({ shards, held, free, nowMs, patienceMs: patienceTerms * termMs })
      return { held, share, liveNodes, nextExpiryMs: nextExpiryMs < 0 ? null : nextExpiryMs, nowMs }
    },
    async resign(nodeId) {
      // Postgres first: whoever finds a lead free must find the term free as well
      await otherwise.resign(nodeId)
      await givingUp(keys, [nodeId]).catch(() => undefined)
    },
  }
}

/** The shards that Redis leaves to nobody, by what Postgres says, and those of them that this node took. */
function createUnled(redis: Pick<RedisLink, 'overruled'>) {
  /** Shard → since when nobody holds it, database time. */
  let freeSince = new Map<number, number>()
  let overdue: readonly number[] = []
  let taken: readonly number[] = []

  return {
    /** To be held beside what Redis says: those taken already, and those that wait for too long. */
    asked: (): readonly number[] => [...taken, ...overdue],
    note(seen: {
      readonly shards: readonly number[]
      readonly held: readonly HeldShard[]
      readonly free: readonly number[]
      readonly nowMs: number
      readonly patienceMs: number
    }): void {
      const { nowMs, patienceMs } = seen
      freeSince = new Map(seen.free.map((shard) => [shard, freeSince.get(shard) ?? nowMs]))
      overdue = [...freeSince].flatMap(([shard, sinceMs]) => (nowMs - sinceMs >= patienceMs ? [shard] : []))
      const byRedis = new Set(seen.shards)
      taken = seen.held.flatMap(({ shard }) => (byRedis.has(shard) ? [] : [shard]))
      redis.overruled(taken.length)
    },
    forget() {
      freeSince = new Map()
      overdue = []
      taken = []
      redis.overruled(0)
    },
  }
}
