/**
 * Pages of lists, as stores are asked for them and answer: newest first, and never more work than a bounded
 * stretch of the list.
 */

/** A page of a list, newest first: what has an id below `beforeId`, at most `limit`. */
export interface PageRequest {
  readonly beforeId: string | null
  readonly limit: number
}

/**
 * What was found in a bounded stretch of a list: few things may pass a filter, and no call walks a whole
 * history for them.
 */
export interface Found<Item, Position = string> {
  readonly items: readonly Item[]
  /** Down to here everything was looked at, and there may be more below; null: to the end of the list. */
  readonly lookedTo: Position | null
}
