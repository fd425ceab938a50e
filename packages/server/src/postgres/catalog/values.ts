/**
 * Small conversions between rows and records that every store of the catalog shares: instants, the one row
 * that has to be there, names that are taken.
 */
import { BelfryError } from '@belfry/contract'
import { violatedConstraint } from '../database-error.ts'

/** Above every UUIDv7. */
export const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const msOf = (instant: Date): number => instant.getTime()
export const msOrNull = (instant: Date | null): number | null => (instant === null ? null : instant.getTime())
export const isoOf = (instantMs: number): string => new Date(instantMs).toISOString()
export const isoOrNull = (instantMs: number | null): string | null =>
  instantMs === null ? null : isoOf(instantMs)

/** A row that the statement always answers. */
export function only<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined)
    throw new BelfryError('internal', 'The database answered no row where one had to be.')
  return row
}

/** Whether a statement gave up waiting for a lock. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '55P03'
}

/** Runs a write; a violated unique index of the given name becomes `name_taken`. */
export async function refusingTaken<T>(constraint: string, words: string, write: Promise<T>): Promise<T> {
  try {
    return await write
  } catch (error) {
    if (violatedConstraint(error) !== constraint) throw error
    const errors = [{ pointer: '/name', message: words }]
    throw new BelfryError('name_taken', words, { cause: error, errors })
  }
}
