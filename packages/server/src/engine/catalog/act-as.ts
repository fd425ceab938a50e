/**
 * As whom a job runs. A job that runs as a service account uses what is granted to that account, so whoever
 * says what such a job does needs the right to act as it: `service_account.act_as`, or to be that account.
 * That holds for the account that a job ran as before too, else taking it away and giving it back would be
 * a way around.
 */
import { BelfryError } from '@belfry/contract'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { Credential } from '../../ports/credentials.ts'
import type { ServiceAccountRecord } from '../../ports/service-accounts.ts'

/** Throws `forbidden`, with a pointer. */
export function checkMayActAs(
  { permissions, principal }: Credential,
  accounts: readonly (string | null)[],
  pointer = '/runAs',
): void {
  for (const name of accounts) {
    if (name === null || permissions.has('service_account.act_as')) continue
    if (principal.kind === 'service_account' && principal.name === name) continue
    const message =
      `Acting as "${name}" takes the permission "service_account.act_as" (roles admin and owner, scope ` +
      `"admin") or a key of that account.`
    throw new BelfryError('forbidden', message, { errors: [{ pointer, message }] })
  }
}

/** Throws `not_found`, or `invalid_request` where the account is disabled or bound to other queues. */
export async function checkRunAs(
  tx: Pick<CatalogTx, 'serviceAccounts'>,
  { runAs, queue }: { readonly runAs: string | null; readonly queue: string },
  at = '',
): Promise<void> {
  if (runAs === null) return
  const account = await accountNamed(tx, runAs, `${at}/runAs`)
  if (account.queues === null || account.queues.includes(queue)) return
  const bound = account.queues.join(', ')
  throw refused(
    `${at}/queue`,
    `is "${queue}", and jobs that run as "${runAs}" may be in ${bound}; choose one of those`,
  )
}

/** Throws `not_found`, or `invalid_request` where the account is disabled. */
export async function accountNamed(
  tx: Pick<CatalogTx, 'serviceAccounts'>,
  name: string,
  pointer: string,
): Promise<ServiceAccountRecord> {
  const account = await tx.serviceAccounts.holdByName(name)
  if (account === undefined) {
    const message = `There is no service account "${name}" here; make it first (POST /v1/service-accounts).`
    throw new BelfryError('not_found', message, { errors: [{ pointer, message }] })
  }
  if (account.disabledAtMs !== null)
    throw refused(pointer, `is "${name}", which is disabled; enable it first`)
  return account
}

function refused(pointer: string, message: string): BelfryError {
  return new BelfryError('invalid_request', `${pointer.slice(1)} ${message}.`, {
    errors: [{ pointer, message }],
  })
}
