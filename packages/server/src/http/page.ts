/**
 * One page of a list, newest first: reads one item more than was asked for, to know whether there is a next
 * page. Items that are added meanwhile stand before the first page and disturb no later one.
 */
import type { ListScope } from './cursor.ts'
import { makeCursor, readCursor } from './cursor.ts'

const idPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface PageAsked {
  readonly limit: number
  readonly cursor?: string | undefined
}

/** A page of things sorted by id, newest first. Throws `invalid_cursor`. */
export async function pageById<Item extends { readonly id: string }, View>(
  scope: ListScope,
  { limit, cursor }: PageAsked,
  read: (page: { beforeId: string | null; limit: number }) => Promise<readonly Item[]>,
  view: (item: Item) => View,
): Promise<{ items: View[]; nextCursor: string | null }> {
  const found = await read({ beforeId: readCursor(scope, cursor, idPattern), limit: limit + 1 })
  return cut(scope, limit, found, (item) => item.id, view)
}

/** The page itself, and the cursor of the next one if there is more. */
export function cut<Item, View>(
  scope: ListScope,
  limit: number,
  found: readonly Item[],
  positionOf: (item: Item) => string,
  view: (item: Item) => View,
): { items: View[]; nextCursor: string | null } {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  const more = found.length > limit && last !== undefined
  return { items: items.map(view), nextCursor: more ? makeCursor(scope, positionOf(last)) : null }
}
