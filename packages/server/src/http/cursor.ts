/**
 * Cursors of lists: where the next page begins, bound by a hash to the list and filter it was made for.
 * Opaque to callers; it grants nothing, since every page is read as the caller's tenant anyway.
 */
import { createHash } from 'node:crypto'
import { BelfryError } from '@belfry/contract'

const hashBytes = 9

export interface ListScope {
  readonly list: string
  readonly tenantId: string
  readonly filter: Readonly<Record<string, unknown>>
}

/** `position` is the id, or another sort key, of the last item of the page. */
export function makeCursor(scope: ListScope, position: string): string {
  return Buffer.concat([hashOf(scope), Buffer.from(position)]).toString('base64url')
}

/**
 * The position in a cursor, of the form that `pattern` says; null without a cursor. Throws `invalid_cursor`.
 */
export function readCursor(scope: ListScope, cursor: string | undefined, pattern: RegExp): string | null {
  if (cursor === undefined) return null
  const bytes = Buffer.from(cursor, 'base64url')
  const position = bytes.subarray(hashBytes).toString('latin1')
  // decoding is lenient: only what encodes to the same text was made here
  const bound = bytes.toString('base64url') === cursor && bytes.subarray(0, hashBytes).equals(hashOf(scope))
  if (bound && pattern.test(position)) return position
  const message = 'does not belong to this list with these filters; start again without it'
  throw new BelfryError('invalid_cursor', `The cursor ${message}.`, {
    errors: [{ pointer: '/query/cursor', message }],
  })
}

function hashOf({ list, tenantId, filter }: ListScope): Buffer {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  const text = JSON.stringify([list, tenantId, given.sort(([a], [b]) => (a < b ? -1 : 1))])
  return createHash('sha256').update(text).digest().subarray(0, hashBytes)
}
