// An OpenID provider of our own on loopback, in the manner of Keycloak: discovery, key set, authorization
// with PKCE, token and userinfo endpoints. Whoever is sent to it is signed in at once as the person that
// the test set. A test may also have it lie, in each way that a relying party has to notice.
import { createHash, createSecretKey, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  exportJWK,
  exportSPKI,
  type GenerateKeyPairResult,
  generateKeyPair,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from 'jose'

export type Lie =
  | 'none'
  | 'other_issuer'
  | 'other_audience'
  | 'other_nonce'
  | 'expired'
  | 'no_expiry'
  | 'foreign_key'
  | 'embedded_key'
  | 'jku'
  | 'unsigned'
  | 'hmac_with_public_key'
  | 'no_id_token'
  | 'redirecting_token_endpoint'

export type Person = Readonly<Record<string, unknown>> & { readonly sub: string }

export interface OidcIssuer {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: string
  person: Person
  lie: Lie
  /** Claims that only userinfo tells. */
  userinfoOnly: readonly string[]
  /** Paths that were asked for, in order. */
  readonly asked: string[]
  close(): Promise<void>
}

interface Granted {
  readonly challenge: string
  readonly nonce: string
  readonly redirectUri: string
  readonly person: Person
}

interface Keys {
  readonly own: GenerateKeyPairResult
  readonly foreign: GenerateKeyPairResult
}

export async function startOidcIssuer(): Promise<OidcIssuer> {
  const keys = {
    own: await generateKeyPair('RS256', { extractable: true }),
    foreign: await generateKeyPair('RS256', { extractable: true }),
  }
  const asked: string[] = []
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer: OidcIssuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clientId: 'belfry',
    clientSecret: 'the-secret-of-belfry',
    person: { sub: 'nobody' },
    lie: 'none',
    userinfoOnly: [],
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  const answer = answerAs(issuer, keys)
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    answer(request, response).catch(() => response.writeHead(500).end())
  })
  return issuer
}

function answerAs(issuer: OidcIssuer, keys: Keys) {
  const codes = new Map<string, Granted>()
  const tokens = new Map<string, Person>()

  async function token(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = new URLSearchParams(await textOf(request))
    const granted = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    if (granted === undefined || !redeems(issuer, granted, form, request))
      return json(response, { error: 'invalid_grant' }, 400)
    const access = randomBytes(16).toString('base64url')
    tokens.set(access, granted.person)
    const idToken = issuer.lie === 'no_id_token' ? {} : { id_token: await idTokenOf(issuer, keys, granted) }
    json(response, { access_token: access, token_type: 'Bearer', expires_in: 60, ...idToken })
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer.url)
    issuer.asked.push(pathname)
    if (pathname === '/.well-known/openid-configuration') return json(response, discovery(issuer.url))
    if (pathname === '/jwks') {
      const jwk = await exportJWK(keys.own.publicKey)
      return json(response, { keys: [{ ...jwk, kid: 'own', alg: 'RS256', use: 'sig' }] })
    }
    if (pathname === '/authorize') return authorize(issuer, codes, searchParams, response)
    if (pathname === '/userinfo') {
      const person = tokens.get(request.headers.authorization?.replace('Bearer ', '') ?? '')
      return person === undefined ? json(response, {}, 401) : json(response, person)
    }
    if (pathname !== '/token') return json(response, {}, 404)
    if (issuer.lie !== 'redirecting_token_endpoint') return token(request, response)
    response.writeHead(307, { location: `${issuer.url}/elsewhere` }).end()
  }
}

function authorize(
  issuer: OidcIssuer,
  codes: Map<string, Granted>,
  query: URLSearchParams,
  response: ServerResponse,
): void {
  const need = (name: string): string => query.get(name) ?? ''
  const fits = need('client_id') === issuer.clientId && need('code_challenge_method') === 'S256'
  if (!fits || need('state') === '') return json(response, { error: 'invalid_request' }, 400)
  const code = randomBytes(16).toString('base64url')
  const redirectUri = need('redirect_uri')
  const { person } = issuer
  codes.set(code, { challenge: need('code_challenge'), nonce: need('nonce'), redirectUri, person })
  const back = new URL(redirectUri)
  back.searchParams.set('code', code)
  back.searchParams.set('state', need('state'))
  back.searchParams.set('iss', issuer.url)
  response.writeHead(302, { location: back.href }).end()
}

/** Whether the right client redeems the code, with the verifier that fits. */
function redeems(
  { clientId, clientSecret }: OidcIssuer,
  { challenge, redirectUri }: Granted,
  form: URLSearchParams,
  { headers }: IncomingMessage,
): boolean {
  // both parts are form-encoded before they are joined (RFC 6749, 2.3.1)
  const basic = Buffer.from(headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
  const [id, secret] = basic.split(':').map((part) => decodeURIComponent(part))
  const verifier = form.get('code_verifier') ?? ''
  return (
    id === clientId &&
    secret === clientSecret &&
    createHash('sha256').update(verifier).digest('base64url') === challenge &&
    form.get('redirect_uri') === redirectUri
  )
}

function claimsOf({ lie, url, clientId, userinfoOnly }: OidcIssuer, { person, nonce }: Granted): JWTPayload {
  const nowSeconds = Math.floor(Date.now() / 1_000)
  const shown = Object.entries(person).filter(([name]) => !userinfoOnly.includes(name))
  return {
    ...Object.fromEntries(shown),
    iss: lie === 'other_issuer' ? 'https://staging.example' : url,
    aud: lie === 'other_audience' ? 'another-client' : clientId,
    nonce: lie === 'other_nonce' ? 'another' : nonce,
    iat: lie === 'expired' ? nowSeconds - 7_200 : nowSeconds,
    ...(lie === 'no_expiry' ? {} : { exp: lie === 'expired' ? nowSeconds - 3_600 : nowSeconds + 300 }),
  }
}

async function idTokenOf(issuer: OidcIssuer, { own, foreign }: Keys, granted: Granted): Promise<string> {
  const { lie } = issuer
  const claims = claimsOf(issuer, granted)
  if (lie === 'unsigned') return new UnsecuredJWT(claims).encode()
  if (lie === 'hmac_with_public_key') {
    const key = createSecretKey(Buffer.from(await exportSPKI(own.publicKey)))
    return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'own' }).sign(key)
  }
  const header = {
    alg: 'RS256',
    kid: lie === 'jku' ? 'theirs' : 'own',
    ...(lie === 'embedded_key' ? { jwk: await exportJWK(foreign.publicKey) } : {}),
    ...(lie === 'jku' ? { jku: `${issuer.url}/their-keys` } : {}),
  }
  const isForeign = lie === 'foreign_key' || lie === 'embedded_key' || lie === 'jku'
  return new SignJWT(claims).setProtectedHeader(header).sign(isForeign ? foreign.privateKey : own.privateKey)
}

const discovery = (url: string) => ({
  issuer: url,
  authorization_endpoint: `${url}/authorize`,
  token_endpoint: `${url}/token`,
  userinfo_endpoint: `${url}/userinfo`,
  jwks_uri: `${url}/jwks`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['client_secret_basic'],
  authorization_response_iss_parameter_supported: true,
})

function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString()
}
