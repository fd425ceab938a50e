/**
 * Pools that a job names must be there: a name that was mistyped would limit nothing, and nobody would see
 * it.
 */
import type { JobDefinition } from '@belfry/contract'
import type { CatalogTx } from '../ports/catalog.ts'
import { invalidRequest } from './validation.ts'

/** Throws `invalid_request`, with a pointer to the name. */
export async function checkPools(
  tx: CatalogTx,
  { concurrency }: Pick<JobDefinition, 'concurrency'>,
): Promise<void> {
  const names = (concurrency?.pools ?? []).map(({ name }) => name)
  if (names.length === 0) return
  const missing = new Set(await tx.limits.missingPools(names))
  const faults = names.flatMap((name, index) =>
    missing.has(name)
      ? [{ pointer: `/concurrency/pools/${index}/name`, message: `names no pool; make "${name}" first` }]
      : [],
  )
  if (faults.length > 0) throw invalidRequest(faults)
}
