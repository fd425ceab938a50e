/**
 * Leadership by Redis, terms by Postgres.
 *
 *   1. Redis says which shards this node leads (leadership-script.ts)
 *   2. Postgres begins a term for those that are new, and renews the node
 *
 * Whoever leads by Redis but has no term yet holds nothing, and whoever has the term fires, whatever Redis
 * says: Redis may lose or double everything, and costs time only. While it is away the nodes lead by
 * Postgres; a node that is cut off from Redis alone keeps what it holds until another, who is not, takes
 * it.
 */
import { shardCount } from '../../domain/shard.ts'
import type { Leadership, TermLedger } from '../../ports/leadership.ts'
import { giveUpLeads, renewLeads } from './leadership-script.ts'
import { RedisAway, type RedisLink } from './redis-link.ts'
import { createScript } from './script.ts'

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

  async function leads(nodeId: string, termMs: number): Promise<readonly number[] | undefined> {
    try {
      const answer = await renewing(keys, [nodeId, termMs])
      return Array.isArray(answer) ? answer.map(Number) : undefined
    } catch (error) {
      if (error instanceof RedisAway) return undefined
      throw error
    }
  }

  return {
    async renew(node, termMs) {
      const answer = await leads(node.id, termMs)
      if (answer === undefined) return otherwise.renew(node, termMs)
      const [share = 0, liveNodes = 1, nextExpiryMs = -1, ...shards] = answer
      const { held, nowMs } = await terms.hold(node, shards, termMs)
      return { held, share, liveNodes, nextExpiryMs: nextExpiryMs < 0 ? null : nextExpiryMs, nowMs }
    },
    async resign(nodeId) {
      // Postgres first: whoever finds a lead free must find the term free as well
      await otherwise.resign(nodeId)
      await givingUp(keys, [nodeId]).catch(() => undefined)
    },
  }
}
