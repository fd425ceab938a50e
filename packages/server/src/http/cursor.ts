/**
 * Cursors of lists: where the next page begins, bound by a hash to the list and filter it was made for.
 * Opaque to callers. The hash is a check against mistakes, not a signature: anybody can make a cursor of any
 * position, so what is read from one is judged like any other input. It grants nothing, since every page is
 * read as the caller's tenant anyway.
 */
import { createHash } from 'node:crypto'
import { BelfryError, earliestInstantMs, latestInstantMs } from '@belfry/contract'

const hashBytes = 9

export interface ListScope {
  readonly list: string
  readonly tenantId: string
  readonly filter: Readonly<Record<string, unknown>>
}

/** A kind of position: reads its text, undefined where it is none. */
export type PositionReader<Position> = (text: string) => Position | undefined

const idPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const wholePattern = /^(?:0|[1-9]\d{0,15})$/

export const readId: PositionReader<string> = (text) => (idPattern.test(text) ? text : undefined)

/** A planned time, epoch ms; jitter and the last period before the bound are well within the slack. */
export const readInstantMs: PositionReader<number> = wholeWithin(
  earliestInstantMs,
  latestInstantMs + 366 * 86_400_000,
)

/** Number of an attempt. */
export const readNumber: PositionReader<number> = wholeWithin(0, 2 ** 31 - 1)

/** Place in a chain. */
export const readWhole: PositionReader<number> = wholeWithin(0, Number.MAX_SAFE_INTEGER)

function wholeWithin(min: number, max: number): PositionReader<number> {
  return (text) => {
    const value = wholePattern.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : undefined
  }
}

/** `position` is the id, or another sort key, behind which the next page begins. */
export function makeCursor(scope: ListScope, position: string | number): string {
  return Buffer.concat([hashOf(scope), Buffer.from(String(position))]).toString('base64url')
}

/** The position in a cursor, which came at `pointer`; null without a cursor. Throws `invalid_cursor`. */
export function readCursor<Position>(
  scope: ListScope,
  cursor: string | undefined,
  read: PositionReader<Position>,
  pointer = '/query/cursor',
): Position | null {
  if (cursor === undefined) return null
  const bytes = Buffer.from(cursor, 'base64url')
  // decoding is lenient: only what encodes to the same text was made here
  const bound = bytes.toString('base64url') === cursor && bytes.subarray(0, hashBytes).equals(hashOf(scope))
  const position = bound ? read(bytes.subarray(hashBytes).toString('latin1')) : undefined
  if (position !== undefined) return position
  const message = 'does not belong to this list with these filters; start again without it'
  throw new BelfryError('invalid_cursor', `The cursor ${message}.`, {
    errors: [{ pointer, message }],
  })
}

function hashOf({ list, tenantId, filter }: ListScope): Buffer {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  const text = JSON.stringify([list, tenantId, given.sort(([a], [b]) => (a < b ? -1 : 1))])
  return createHash('sha256').update(text).digest().subarray(0, hashBytes)
}
