/**
 * In the place of secrets where a process has none to give: a run that needs one waits for a process that
 * has.
 */
import { BelfryError } from '@belfry/contract'
import type { SecretSource } from '../../ports/secrets.ts'

const message = 'This process gives no secrets.'

export const noSecrets: SecretSource = {
  resolve: () =>
    Promise.resolve({
      ok: false,
      fault: { code: 'secrets_unavailable', message, retryable: true },
    }),
  masked: () => Promise.reject(new BelfryError('secrets_unavailable', message)),
}
