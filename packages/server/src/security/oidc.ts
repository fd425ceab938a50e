/**
 * The OpenID provider, by openid-client over the egress module.
 *
 *   begin    discovery (kept an hour) ─► state, nonce, PKCE verifier ─► address to send the browser to
 *   finish   state and issuer of the answer ─► code and verifier for tokens ─► ID token: signature by the
 *            provider's keys, issuer, audience, nonce, times ─► claims, of userinfo where the token has none
 *
 * Only asymmetric algorithms are taken, keys come from the provider's own key set and never from a token.
 * Access and refresh tokens are not kept.
 */
import { BelfryError } from '@belfry/contract'
import * as client from 'openid-client'
import type { Clock } from '../ports/clock.ts'
import type { IdentityClaims } from '../domain/people/issued-role.ts'
import type { OidcClient } from '../ports/people.ts'
import { EgressCallError } from './egress/call-error.ts'
import type { EgressFetch } from './egress/egress-fetch.ts'

export interface OidcOptions {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly redirectUrl: string
  readonly scope: string
  readonly groupsClaim: string
  readonly fetch: EgressFetch
  readonly clock: Clock
}

const discoveryMs = 3_600_000

export function createOidcClient(options: OidcOptions): OidcClient {
  const { clock, issuer } = options
  let known: { readonly configuration: Promise<client.Configuration>; readonly untilMs: number } | undefined

  function configured(): Promise<client.Configuration> {
    const nowMs = clock.monotonicMs()
    if (known !== undefined && nowMs < known.untilMs) return known.configuration
    const configuration = discover(options)
    known = { configuration, untilMs: nowMs + discoveryMs }
    // the next one who signs in asks again
    configuration.catch(() => {
      known = undefined
    })
    return configuration
  }

  return {
    issuer,
    async begin(next) {
      const configuration = await configured().catch(asFault(issuer))
      const attempt = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        verifier: client.randomPKCECodeVerifier(),
        next,
      }
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: options.redirectUrl,
        scope: options.scope,
        state: attempt.state,
        nonce: attempt.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(attempt.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, attempt }
    },
    async finish(query, { state, nonce, verifier }) {
      try {
        const configuration = await configured()
        const answer = new URL(options.redirectUrl)
        answer.search = query.toString()
        const tokens = await client.authorizationCodeGrant(configuration, answer, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        })
        const claims = tokens.claims()
        if (claims === undefined) throw new Error('no ID token')
        const { userinfo_endpoint: userinfo } = configuration.serverMetadata()
        const isShort = claims['email'] === undefined || claims[options.groupsClaim] === undefined
        const more =
          isShort && userinfo !== undefined
            ? await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
            : {}
        return identityOf(issuer, claims.sub, { ...more, ...claims }, options.groupsClaim)
      } catch (error) {
        return asFault(issuer)(error)
      }
    },
  }
}

async function discover({
  issuer,
  clientId,
  clientSecret,
  fetch,
}: OidcOptions): Promise<client.Configuration> {
  const url = new URL(issuer)
  const isPlain = url.protocol === 'http:'
  const authentication = clientSecret === undefined ? client.None() : client.ClientSecretBasic(clientSecret)
  return client.discovery(url, clientId, undefined, authentication, {
    [client.customFetch]: (target, init) => fetch(target, init as RequestInit),
    timeout: 15,
    // by default the token is taken on the word of TLS alone, its signature unseen
    execute: [client.enableNonRepudiationChecks, ...(isPlain ? [client.allowInsecureRequests] : [])],
  })
}

function identityOf(
  issuer: string,
  subject: string,
  claims: Readonly<Record<string, unknown>>,
  groupsClaim: string,
): IdentityClaims {
  const text = (name: string): string | null => {
    const value = claims[name]
    return typeof value === 'string' && value !== '' ? value : null
  }
  const groups = claims[groupsClaim]
  return {
    issuer,
    subject,
    email: text('email'),
    emailVerified: claims['email_verified'] === true,
    name: text('name') ?? text('preferred_username'),
    groups: Array.isArray(groups) ? groups.filter((group) => typeof group === 'string') : [],
  }
}

/** Codes of openid-client that say that the provider, and not the person, failed. */
const unreachable = new Set([
  'OAUTH_TIMEOUT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_HTTP_REQUEST_FORBIDDEN',
  'OAUTH_MISSING_SERVER_METADATA',
])

/** The library wraps what its `fetch` throws. */
function callErrorIn(error: unknown): EgressCallError | undefined {
  if (error instanceof EgressCallError) return error
  return error instanceof Error && error.cause !== undefined ? callErrorIn(error.cause) : undefined
}

function asFault(issuer: string): (error: unknown) => never {
  return (error) => {
    if (error instanceof BelfryError) throw error
    const facts = error instanceof Error ? (error as { code?: unknown; error?: unknown }) : {}
    const call = callErrorIn(error)
    const code = call?.code ?? (typeof facts.code === 'string' ? facts.code : 'unknown')
    if (call !== undefined || unreachable.has(code)) {
      const message = `The OpenID provider ${issuer} could not be asked (${code}); try again later.`
      throw new BelfryError('sign_in_unavailable', message, { cause: error })
    }
    // of what the provider says only its short code: descriptions may hold anything
    const said = typeof facts.error === 'string' && /^[a-z_]{1,64}$/.test(facts.error) ? facts.error : code
    const message = `The answer of the OpenID provider was refused (${said}); begin to sign in again.`
    throw new BelfryError('sign_in_failed', message, { cause: error })
  }
}
