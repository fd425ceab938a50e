/**
 * One bad row must not hold up the good ones that are written with it: what fails together is tried in
 * halves, down to the one at fault, which the caller sets aside.
 *
 * Only a fault of the rows themselves is looked for this way. While the database is away, busy, full, in
 * doubt, or has another schema than this version, halves would fail as the whole did and good rows would be
 * set aside: such an error goes back to the caller, who tries again later.
 */
import { BelfryError } from '@belfry/contract'

/**
 * Does `work` on all parts together, or on ever smaller halves of them; calls `setAside` for each that fails
 * by itself. Rejects with any error that is no fault of the parts, at once.
 */
export async function isolateFault<Part>(
  parts: readonly Part[],
  work: (parts: readonly Part[]) => Promise<void>,
  setAside: (part: Part, error: unknown) => Promise<void> | void,
): Promise<void> {
  const [only] = parts
  if (only === undefined) return
  try {
    await work(parts)
  } catch (error) {
    if (!isFaultOfRows(error)) throw error
    if (parts.length === 1) return setAside(only, error)
    const middle = Math.ceil(parts.length / 2)
    await isolateFault(parts.slice(0, middle), work, setAside)
    await isolateFault(parts.slice(middle), work, setAside)
  }
}

/**
 * Classes of SQLSTATE that speak of data: cardinality, data, constraint, check option, too large, raised by a
 * function, internal (a row that is broken on disk is one).
 */
const dataClasses: ReadonlySet<string> = new Set(['21', '22', '23', '44', '54', 'P0', 'XX'])

/** Whether an error comes from what was written, so that other rows may fare better. */
export function isFaultOfRows(error: unknown): boolean {
  if (error instanceof BelfryError) {
    return error.code === 'internal' || (!error.retryable && error.code !== 'schema_mismatch')
  }
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (typeof code !== 'string') return true
  if (/^[0-9A-Z]{5}$/.test(code)) return dataClasses.has(code.slice(0, 2))
  // names of the operating system (ECONNRESET) are the way, not the cargo
  return !/^E[A-Z]+$/.test(code)
}
