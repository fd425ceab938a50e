/**
 * The way of a browser to the OpenID provider and back. What has to be the same afterwards (state, nonce,
 * PKCE verifier, where to go next) waits in a cookie of ten minutes, so that any process may take the
 * answer, and only the browser that began may bring it.
 */
import { BelfryError } from '@belfry/contract'
import { z } from 'zod'
import { localPath } from '../../domain/people/local-path.ts'
import type { OidcAttempt, OidcClient } from '../../ports/people.ts'
import type { Endpoints, PublicServices } from '../endpoint.ts'
import { cookiesOf } from '../people-door.ts'
import { peopleOf } from './person-sessions.ts'

const attemptSchema = z.strictObject({
  state: z.string().min(1),
  nonce: z.string().min(1),
  verifier: z.string().min(1),
  next: z.string(),
})

export const oidcEndpoints: Pick<Endpoints, 'oidcStart' | 'oidcCallback'> = {
  oidcStart: {
    as: 'public',
    async answer({ services, query }) {
      const { cookies, client } = providerOf(services)
      const { url, attempt } = await client.begin(localPath(query.next))
      const kept = Buffer.from(JSON.stringify(attempt)).toString('base64url')
      return { body: undefined, headers: { location: url, 'set-cookie': cookies.attempt(kept) } }
    },
  },
  oidcCallback: {
    as: 'public',
    async answer({ services, request, visitor }) {
      const { door, cookies, client } = providerOf(services)
      const attempt = attemptOf(cookies.attemptOf(request))
      const query = new URL(request.url, 'http://belfry.invalid').searchParams
      const signedIn = await door.attempt(null, visitor, async () => {
        const claims = await client.finish(query, attempt)
        return door.signIns.byIdentity(claims, visitor, (principalId) =>
          services.makeKnown({ kind: 'principal_changed', principalId }),
        )
      })
      return {
        body: undefined,
        headers: {
          location: localPath(attempt.next),
          'set-cookie': [cookies.noAttempt(), cookies.session(signedIn.token)],
        },
      }
    },
  },
}

/** Throws `sign_in_off`. */
function providerOf(services: PublicServices) {
  const door = peopleOf(services)
  const client: OidcClient | undefined = door.signIns.oidc
  if (client !== undefined) return { door, client, cookies: cookiesOf(door) }
  const message = 'No OpenID provider is set; give oidcIssuer (BELFRY_OIDC_ISSUER), or sign in by password.'
  throw new BelfryError('sign_in_off', message)
}

function attemptOf(text: string | undefined): OidcAttempt {
  const read = attemptSchema.safeParse(parsed(text))
  if (read.success) return read.data
  const message =
    'This browser did not begin to sign in here, or ten minutes ago; begin again at /v1/oidc/start.'
  throw new BelfryError('sign_in_failed', message)
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(text ?? '', 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
}
