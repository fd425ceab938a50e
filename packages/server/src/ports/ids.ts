/**
 * Where new ids come from. UUIDv7: ordered by time, so that history lands in the partition of its day, and
 * random at its end, which picks the shard.
 */

export interface Ids {
  /**
   * A new UUIDv7 whose time is `atMs` (epoch ms, database time where known). Random bits come from a secure
   * source.
   */
  uuidv7(atMs: number): string
}
