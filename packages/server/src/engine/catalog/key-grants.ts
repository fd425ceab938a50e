/**
 * Who may make which key. In one's own tenant it takes `admin`, and nobody gives what he does not have. For
 * another tenant it takes `platform`, which may give anything there but `platform` itself unless the creator
 * has it.
 */
import type { ErrorDetail, Scope } from '@belfry/contract'
import { BelfryError, scopeAllows } from '@belfry/contract'
import type { Credential } from '../../ports/credentials.ts'

/** Throws `forbidden`, with a pointer to the scope or tenant that is too much. */
export function checkGrant(creator: Credential, wanted: readonly Scope[], otherTenant: boolean): void {
  const needed: Scope = otherTenant ? 'platform' : 'admin'
  if (!scopeAllows(creator.scopes, needed)) {
    const message = otherTenant
      ? 'A key for another tenant needs the scope "platform"; leave out "tenant" or use such a key.'
      : 'Making keys needs the scope "admin"; use a key that has it.'
    throw new BelfryError('forbidden', message, {
      errors: otherTenant ? [{ pointer: '/tenant', message }] : [],
    })
  }
  const mayGive = (scope: Scope) =>
    scopeAllows(creator.scopes, scope) || (otherTenant && scope !== 'platform')
  const errors = wanted.flatMap((scope, index): ErrorDetail[] =>
    mayGive(scope) ? [] : [{ pointer: `/scopes/${index}`, message: `your own key does not have "${scope}"` }],
  )
  if (errors.length > 0) {
    throw new BelfryError(
      'forbidden',
      'A key can be given only what its creator may do himself; leave out the rest.',
      {
        errors,
      },
    )
  }
}
