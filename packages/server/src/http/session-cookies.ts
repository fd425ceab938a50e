/**
 * The cookie that holds a session in a browser, and the check that a change which leans on it comes from
 * Belfry's own pages (CSRF).
 *
 *   https      `__Host-belfry`: Secure, HttpOnly, SameSite=Lax, for this host and no other. Needs the setting
 *              `publicUrl`, because TLS ends at a proxy and the server cannot see it.
 *   loopback   `belfry-loopback`, without Secure, on plain http for development only: browsers differ in
 *              whether they take a Secure cookie there. Cookies know no ports, so whatever else listens on
 *              this machine gets to see it.
 *   else       none: a session would travel in clear text.
 *
 * A browser says where a request comes from in `Sec-Fetch-Site` and `Origin`, which no page can forge. Every
 * method that changes something takes one of them that fits, and refuses where neither is sent.
 */
import { BelfryError } from '@belfry/contract'
import type { FastifyRequest } from 'fastify'

const attemptSeconds = 600
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
const loopbackHost = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i

export interface SessionCookies {
  /** People come by https. */
  readonly secure: boolean
  /** The session token of the request, if it has one. */
  tokenOf(request: FastifyRequest): string | undefined
  /** What the sign-in at the provider has to remember. */
  attemptOf(request: FastifyRequest): string | undefined
  /** Throws `cross_origin` for a change that does not come from Belfry's own pages. */
  checkOrigin(request: FastifyRequest): void
  /** `Set-Cookie` of a session. */
  session(token: string): string
  noSession(): string
  attempt(text: string): string
  noAttempt(): string
}

/**
 * `publicUrl` is where people reach Belfry; without it only a server that listens on loopback has cookies.
 * Undefined: it has none.
 */
export function createSessionCookies(options: {
  readonly publicUrl: string | undefined
  readonly listensOnLoopback: boolean
}): SessionCookies | undefined {
  const url = options.publicUrl === undefined ? undefined : new URL(options.publicUrl)
  if (url === undefined && !options.listensOnLoopback) return undefined
  const secure = url?.protocol === 'https:'
  // a session would travel in clear text
  if (url !== undefined && !secure && !loopbackHost.test(url.host)) return undefined
  const name = secure ? '__Host-belfry' : 'belfry-loopback'
  const ownOrigin = (request: FastifyRequest): string | undefined => {
    if (url !== undefined) return url.origin
    const host = request.headers.host ?? ''
    return loopbackHost.test(host) ? `http://${host}`.toLowerCase() : undefined
  }
  const read = (request: FastifyRequest, wanted: string): string | undefined =>
    valueOf(request.headers.cookie ?? '', wanted)
  return {
    secure,
    tokenOf: (request) => read(request, name),
    attemptOf: (request) => read(request, `${name}-oidc`),
    checkOrigin(request) {
      if (safeMethods.has(request.method)) return
      const site = request.headers['sec-fetch-site']
      const { origin } = request.headers
      const fits =
        (site === undefined || site === 'same-origin') &&
        (origin === undefined ? site !== undefined : origin.toLowerCase() === ownOrigin(request))
      if (fits) return
      const from = origin ?? (site === undefined ? 'an unknown place' : `a page that is ${site}`)
      const own = ownOrigin(request) ?? 'the setting publicUrl'
      throw new BelfryError(
        'cross_origin',
        `A request with the session cookie that changes something must come from ${own}, and this one came ` +
          `from ${from.slice(0, 200)}; send it from there, or use an API key in "Authorization: Bearer …".`,
      )
    },
    // no Max-Age: it ends with the browser, and at the server in any case
    session: (token) => written(name, token, secure),
    noSession: () => written(name, '', secure, 0),
    attempt: (text) => written(`${name}-oidc`, text, secure, attemptSeconds),
    noAttempt: () => written(`${name}-oidc`, '', secure, 0),
  }
}

/** Values are tokens and base64url, which need no escapes. */
function written(name: string, value: string, secure: boolean, maxAgeSeconds?: number): string {
  const parts = [`${name}=${value}`, 'Path=/', 'HttpOnly', 'SameSite=Lax']
  if (secure) parts.push('Secure')
  if (maxAgeSeconds !== undefined) parts.push(`Max-Age=${maxAgeSeconds}`)
  return parts.join('; ')
}

/** Of two with one name the first, as browsers send the more specific one first. */
function valueOf(header: string, name: string): string | undefined {
  for (const pair of header.split(';')) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}
