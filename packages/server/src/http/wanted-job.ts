/**
 * The job that a filter names, by name, by id or by both. A name is that of a living job, or of the last that
 * had it, because runs outlive their job.
 */
import type { CatalogTx } from '../ports/catalog.ts'

/** Undefined for any, null where the filter names none that is here, or two different ones. */
export async function wantedJob(
  tx: CatalogTx,
  name: string | undefined,
  id: string | undefined,
): Promise<string | null | undefined> {
  if (name === undefined) return id
  const named = await tx.runs.jobIdOfName(name)
  return named === undefined || (id !== undefined && id !== named) ? null : named
}
