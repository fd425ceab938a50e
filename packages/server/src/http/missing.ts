/**
 * "There is no such thing": the same words for what never was, what is gone and what belongs to another
 * tenant, so that an answer tells nothing about others.
 */
import { BelfryError, nearest } from '@belfry/contract'
import type { CatalogTx } from '../ports/catalog.ts'

const mostSuggested = 1_000

export function noSuch(what: string, id: string): BelfryError {
  const message = `There is no ${what} ${id} here. Look at the list of ${what}s for the ids that exist.`
  return new BelfryError('not_found', message, {
    errors: [{ pointer: '/params/id', message: `names no ${what}` }],
  })
}

/** The same of a run or a workflow run, and where the id is one of the other kind, which it is. */
export async function noSuchRun(
  tx: CatalogTx,
  what: 'run' | 'workflow run',
  id: string,
): Promise<BelfryError> {
  const other = what === 'run' ? 'workflow run' : 'run'
  const found =
    what === 'run' ? await tx.workflows.runs.find(id) : await tx.runs.find(id, { before: null, limit: 1 })
  if (found === undefined) return noSuch(what, id)
  const command = `belfry ${other.replace(' ', '-')} get ${id}`
  const message = `There is no ${what} ${id} here: that is the id of a ${other}. See it with ${command}.`
  return new BelfryError('not_found', message, {
    errors: [{ pointer: '/params/id', message: `names a ${other}, not a ${what}` }],
  })
}

/** A job named in a body that does not exist; `known` are the names of those that do. */
export function noSuchJob(name: string, known: readonly string[]): BelfryError {
  const meant = nearest(name, known)
  const fix =
    meant === undefined
      ? 'Create it first, or give an inline handler where that is allowed.'
      : `Did you mean "${meant}"?`
  const message = `There is no job named "${name}". ${fix}`
  return new BelfryError('not_found', message, { errors: [{ pointer: '/job', message }] })
}

/** A workflow named in a body that does not exist. */
export async function noSuchWorkflow(tx: CatalogTx, name: string): Promise<BelfryError> {
  const meant = nearest(name, await tx.workflows.names(mostSuggested))
  const fix = meant === undefined ? 'Store it first: belfry workflow apply.' : `Did you mean "${meant}"?`
  const message = `There is no workflow named "${name}". ${fix}`
  return new BelfryError('not_found', message, { errors: [{ pointer: '/workflow', message }] })
}
