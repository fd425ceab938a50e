/**
 * One page of a list, newest first: reads one item more than was asked for, to know whether there is a next
 * page. Items that are added meanwhile stand before the first page and disturb no later one. Where a store
 * looked through a bounded stretch only, the page may be short or empty, and the next one begins where the
 * look ended.
 */
import type { Found } from '../ports/paging.ts'
import type { ListScope } from './cursor.ts'
import { makeCursor, readCursor, readId } from './cursor.ts'

export interface PageAsked {
  readonly limit: number
  readonly cursor?: string | undefined
}

type Page<View> = { items: View[]; nextCursor: string | null }

/** A page of things sorted by id, newest first. Throws `invalid_cursor`. */
export async function pageById<Item extends { readonly id: string }, View>(
  scope: ListScope,
  { limit, cursor }: PageAsked,
  read: (page: { beforeId: string | null; limit: number }) => Promise<readonly Item[] | Found<Item>>,
  view: (item: Item) => View,
): Promise<Page<View>> {
  const found = await read({ beforeId: readCursor(scope, cursor, readId), limit: limit + 1 })
  const all = 'lookedTo' in found ? found : { items: found, lookedTo: null }
  return cut(scope, limit, all, (item) => item.id, view)
}

/** The page itself, and the cursor of the next one if there may be more. */
export function cut<Item, View, Position extends string | number>(
  scope: ListScope,
  limit: number,
  found: Found<Item, Position>,
  positionOf: (item: Item) => Position,
  view: (item: Item) => View,
): Page<View> {
  const items = found.items.slice(0, limit)
  const last = items.at(-1)
  const full = found.items.length > limit && last !== undefined
  const next = full ? positionOf(last) : found.lookedTo
  return { items: items.map(view), nextCursor: next === null ? null : makeCursor(scope, next) }
}
