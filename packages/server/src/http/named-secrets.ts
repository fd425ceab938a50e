/**
 * Secrets that a handler names must be there when it is saved: a name that was mistyped would fail every run.
 * Whether the job may use them is judged when it runs, since a grant names a job that exists.
 */
import type { ErrorDetail, JobDefinition } from '@belfry/contract'
import { maxSecretsOfHandler, secretsOf } from '@belfry/contract'
import type { CatalogTx } from '../ports/catalog.ts'
import { invalidRequest } from './validation.ts'

/** Throws `invalid_request`, with a pointer to the handler. */
export async function checkSecrets(
  tx: Pick<CatalogTx, 'secrets'>,
  handler: JobDefinition['handler'],
  pointer = '/handler',
): Promise<void> {
  const names = secretsOf(handler)
  if (names.length === 0) return
  if (names.length > maxSecretsOfHandler) {
    const message = `names ${names.length} secrets; ${maxSecretsOfHandler} are allowed`
    throw invalidRequest([{ pointer, message }])
  }
  const missing = await tx.secrets.missing(names)
  const faults = missing.map((name): ErrorDetail => {
    return { pointer, message: `names the secret "${name}", which is not there; store it first` }
  })
  if (faults.length > 0) throw invalidRequest(faults)
}
