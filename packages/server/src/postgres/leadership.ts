/**
 * Leadership in Postgres. A renewal is one transaction:
 *
 *   1. renew the node row, list who is alive: that gives the even share
 *   2. lock own shards, give up those beyond the share, renew the others
 *   3. below the share: lock free ones, skipping those that another takes or fires in, and begin a term
 *
 * Node and shards end at the same instant, so that whoever sees the one run out may take the other.
 */
import { shardCount } from '../domain/shard.ts'
import type { HeldShard, Leadership, Renewal, TermLedger } from '../ports/leadership.ts'
import type { Database, Scope, Transaction } from './database.ts'
import {
  beginTerms,
  findFreeShards,
  foreignExpiry,
  freeShards,
  liveNodes,
  lockFreeShards,
  lockNewShards,
  lockOwnShards,
  removeNode,
  renewNode,
  renewShards,
  takeShards,
} from './statements/leadership.ts'

export function createPostgresLeadership(db: Database): Leadership {
  return {
    renew: (node, termMs) =>
      db.transaction(scope(termMs), async (tx): Promise<Renewal> => {
        const [renewed] = await tx.query(renewNode, [node.id, node.host, node.version, termMs])
        if (renewed === undefined) throw new Error('The renewal of a scheduler node answered no row.')
        const nodes = await tx.query(liveNodes, [])
        const share = evenShare(nodes, node.id)
        const [foreign] = await tx.query(foreignExpiry, [node.id])
        const held = await keepAndTake(tx, node.id, share, termMs)
        const ends = nodes.filter(({ id }) => id !== node.id).map((other) => other.ends_in_ms)
        if (typeof foreign?.ends_in_ms === 'number') ends.push(foreign.ends_in_ms)
        return {
          held,
          share,
          liveNodes: nodes.length,
          nextExpiryMs: ends.length === 0 ? null : Math.min(...ends),
          nowMs: renewed.now_ms,
        }
      }),
    resign: (nodeId) =>
      db.transaction({ role: 'belfry_engine' }, async (tx) => {
        const own = await tx.query(lockOwnShards, [nodeId])
        await tx.query(freeShards, [own.map(({ shard }) => shard)])
        await tx.query(removeNode, [nodeId])
      }),
  }
}

export function createTermLedger(db: Database): TermLedger {
  return {
    hold: (node, { shards, others }, termMs) =>
      db.transaction(scope(termMs), async (tx) => {
        const [renewed] = await tx.query(renewNode, [node.id, node.host, node.version, termMs])
        if (renewed === undefined) throw new Error('The renewal of a scheduler node answered no row.')
        const wanted = new Set([...shards, ...others])
        const own = await tx.query(lockOwnShards, [node.id])
        const beyond = own.filter(({ shard }) => !wanted.has(shard)).map(({ shard }) => shard)
        if (beyond.length > 0) await tx.query(freeShards, [beyond])
        const fresh = await tx.query(lockNewShards, [node.id, shards])
        if (fresh.length > 0) await tx.query(beginTerms, [node.id, fresh.map(({ shard }) => shard)])
        if (others.length > 0) await takeSome(tx, node.id, others)
        const held = await tx.query(lockOwnShards, [node.id])
        const free = await tx.query(findFreeShards, [])
        return { held, free: free.map(({ shard }) => shard), nowMs: renewed.now_ms }
      }),
  }
}

/** Begins terms for some of these shards, where nobody holds them; leaves the rest to the other nodes. */
async function takeSome(tx: Transaction, nodeId: string, shards: readonly number[]): Promise<void> {
  const free = await tx.query(findFreeShards, [])
  const asked = free.flatMap(({ shard }) => (shards.includes(shard) ? [shard] : []))
  if (asked.length === 0) return
  const nodes = await tx.query(liveNodes, [])
  const own = await tx.query(lockOwnShards, [nodeId])
  const most = Math.max(1, Math.ceil(shardCount / nodes.length) - own.length)
  const locked = await tx.query(lockFreeShards, [nodeId, most, asked])
  if (locked.length > 0) await tx.query(beginTerms, [nodeId, locked.map(({ shard }) => shard)])
}

/** A renewal that takes longer than a third of the term is worth nothing. */
const scope = (termMs: number): Scope => ({ role: 'belfry_engine', timeoutMs: Math.ceil(termMs / 3) })

/** The first ones in the common order hold one more where 64 does not divide evenly. */
function evenShare(nodes: readonly { readonly id: string }[], nodeId: string): number {
  const rank = nodes.findIndex(({ id }) => id === nodeId)
  return Math.floor(shardCount / nodes.length) + (rank < shardCount % nodes.length ? 1 : 0)
}

async function keepAndTake(
  tx: Transaction,
  nodeId: string,
  share: number,
  termMs: number,
): Promise<HeldShard[]> {
  const own = await tx.query(lockOwnShards, [nodeId])
  const kept = own.slice(0, share)
  const beyond = own.slice(share).map(({ shard }) => shard)
  if (beyond.length > 0) await tx.query(freeShards, [beyond])
  if (kept.length > 0) await tx.query(renewShards, [kept.map(({ shard }) => shard), termMs])
  if (kept.length === share) return kept
  const free = await tx.query(lockFreeShards, [nodeId, share - kept.length, null])
  if (free.length === 0) return kept
  const taken = await tx.query(takeShards, [nodeId, free.map(({ shard }) => shard), termMs])
  return [...kept, ...taken]
}
