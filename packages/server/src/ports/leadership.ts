/**
 * Leadership of the 64 shards.
 *
 * 1. Each scheduler process has a node row that it renews together with its shards, in one transaction.
 * 2. A shard is held under a term: a number that grows whenever the shard changes hands. It is the fencing
 *    token that a fire names. The holder trusts it for the term minus a margin, on its monotonic clock from
 *    before the renewal.
 * 3. A shard whose term ran out, or that was resigned, may be taken by anybody; a node takes its even share
 *    only, and gives up what it holds beyond it.
 */

export interface HeldShard {
  readonly shard: number
  readonly term: number
}

export interface Renewal {
  readonly held: readonly HeldShard[]
  /** How many shards this node should hold now; fewer held means that others are about to give some up. */
  readonly share: number
  /** Scheduler processes alive, this one among them. */
  readonly liveNodes: number
  /**
   * In how many ms the first shard or node of somebody else runs out; null where there is none. Wakes the
   * next election.
   */
  readonly nextExpiryMs: number | null
  /** Database time of the renewal, epoch ms. */
  readonly nowMs: number
}

export interface Leadership {
  /** Renews what `nodeId` holds, spreads evenly, takes what is free. One call a period. */
  renew(node: { id: string; host: string; version: string }, termMs: number): Promise<Renewal>
  /** Gives up every shard and the node row, so that others need not wait for the term to run out. */
  resign(nodeId: string): Promise<void>
}

/**
 * What Postgres keeps where something else says who leads: the terms, whose numbers fires name, and who is
 * alive. A term begun here has no end of its own: it ends when somebody else begins the next one, or, where
 * nobody but Postgres can be asked, when its holder is no longer renewed.
 */
export interface TermLedger {
  /**
   * Renews the node, begins terms for those of `shards` that it does not hold yet, and frees what it held
   * beyond them. Shards in which somebody fires at this moment are left out, until the next renewal. Of
   * `others` it keeps what it holds, and takes what nobody does, up to its even share.
   */
  hold(
    node: { id: string; host: string; version: string },
    wanted: { readonly shards: readonly number[]; readonly others: readonly number[] },
    termMs: number,
  ): Promise<{
    readonly held: readonly HeldShard[]
    /** Shards that nobody holds. */
    readonly free: readonly number[]
    /** Database time, epoch ms. */
    readonly nowMs: number
  }>
}
