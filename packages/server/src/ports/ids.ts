/** Where new ids come from. UUIDv7: time-ordered, so that history lands in the partition of its day. */

export interface Ids {
  /** A new UUIDv7 whose time is `atMs` (epoch ms, database time where known). Random bits come from a secure source. */
  uuidv7(atMs: number): string
}
