/**
 * The settings of people, as parts of schema.ts: how long a session lasts, who they are at an OpenID
 * provider, and whether this server is in production. With the checks of which go together.
 */
import { memberRoles, type MemberRole } from '@belfry/contract'
import { z } from 'zod'
import { parseRange } from '../domain/egress/address.ts'
import { about, aboutSecret, list, oneOf, text, whole } from './fields.ts'

const notAddress = (example: string) => `is not an address like ${example}`
const baseUrl = (example: string) =>
  z
    .url({ protocol: /^https?$/, error: notAddress(example) })
    .refine((url) => URL.canParse(url) && new URL(url).username === '' && new URL(url).hash === '', {
      error: `holds a user or a fragment; write it like ${example}`,
    })
    .optional()

const proxyRange = z.string({ error: 'is not a list of address ranges' }).superRefine((range, context) => {
  const parsed = parseRange(range)
  if (!parsed.ok) context.addIssue({ code: 'custom', message: `holds a bad range: ${parsed.message}` })
})

const roleOfGroup = z
  .string({ error: 'is not a list' })
  .regex(new RegExp(`^[^=]{1,256}=(${memberRoles.join('|')})$`), {
    error: `holds what is not GROUP=ROLE, with a role of ${memberRoles.join(', ')}`,
  })

export const peopleFields = {
  mode: oneOf(['development', 'production'])
    .default(() => (process.env['NODE_ENV'] === 'production' ? 'production' : 'development'))
    .meta(
      about(
        '`production` refuses to start with an empty, short, documented or easily guessed secret',
        '`production` where NODE_ENV says so, else `development`',
      ),
    ),
  trustedProxies: list(proxyRange)
    .default([])
    .meta(
      about(
        'Addresses of proxies in front of the API, as CIDRs: of what comes from them `X-Forwarded-For` ' +
          'says where it came from, for limits and for the audit',
      ),
    ),
  sessionIdleMs: whole(300_000, 2_592_000_000)
    .default(43_200_000)
    .meta(about('Without a request for so long the session of a person ends')),
  sessionLifeMs: whole(300_000, 31_536_000_000)
    .default(604_800_000)
    .meta(about('After so long the session of a person ends in any case')),
  oidcIssuer: baseUrl('https://accounts.example.com').meta(
    about('OpenID provider that people sign in with; its discovery document says the rest'),
  ),
  oidcClientId: text.optional().meta(about('Name of Belfry at the provider')),
  oidcClientSecret: text
    .optional()
    .meta(aboutSecret('Secret of `oidcClientId`; without it Belfry is a public client, held by PKCE alone')),
  oidcRedirectUrl: baseUrl('https://belfry.example.com/v1/oidc/callback').meta(
    about('Where the provider sends people back to', '`publicUrl` and `/v1/oidc/callback`'),
  ),
  oidcTenant: text.default('main').meta(about('Tenant that people of the provider are members of')),
  oidcScope: text.default('openid email profile').meta(about('What the provider is asked for')),
  oidcDomains: list(
    z
      .string({ error: 'is not a list' })
      .regex(/^[A-Za-z0-9.-]{1,253}$/, { error: 'holds what is not a domain, such as example.com' })
      .toLowerCase(),
  )
    .default([])
    .meta(about('Domains of e-mail addresses that may come in by the provider; none given: all')),
  oidcGroupsClaim: text.default('groups').meta(about('Claim that holds the groups of a person')),
  oidcRoles: list(roleOfGroup)
    .default([])
    .meta(about('Roles by group, as `GROUP=ROLE`; of several the one that may do most')),
  oidcDefaultRole: oneOf(memberRoles)
    .optional()
    .meta(
      about(
        'Role of people whose groups say nothing',
        'none: only who is invited, or is in a group of `oidcRoles`, comes in',
      ),
    ),
}

export type PeopleSettings = z.infer<z.ZodObject<typeof peopleFields>>

const isLoopback = (url: string): boolean =>
  /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname)

/** Calls `fault` for each setting that does not go with the others. */
export function checkPeople(
  config: PeopleSettings & { readonly publicUrl?: string | undefined },
  fault: (key: keyof PeopleSettings, message: string) => void,
): void {
  for (const key of ['oidcIssuer', 'oidcRedirectUrl'] as const) {
    const url = config[key]
    if (url === undefined || url.startsWith('https:') || isLoopback(url)) continue
    fault(key, `${key} is plain http, which anybody on the way reads and changes; give an https address`)
  }
  if (config.sessionIdleMs > config.sessionLifeMs)
    fault('sessionIdleMs', 'sessionIdleMs is longer than sessionLifeMs; give a shorter one')
  if (config.oidcIssuer === undefined) {
    if (config.oidcClientId !== undefined)
      fault('oidcIssuer', 'oidcIssuer is missing, and oidcClientId is given; set BELFRY_OIDC_ISSUER')
    return
  }
  if (config.oidcClientId === undefined)
    fault('oidcClientId', 'oidcClientId is missing, and oidcIssuer is given; set BELFRY_OIDC_CLIENT_ID')
  if (config.oidcRedirectUrl === undefined && config.publicUrl === undefined) {
    const message =
      'oidcRedirectUrl is missing, and oidcIssuer is given: the provider must know where to send people ' +
      'back to; set BELFRY_PUBLIC_URL, or BELFRY_OIDC_REDIRECT_URL'
    fault('oidcRedirectUrl', message)
  }
}

/** `GROUP=ROLE` as a map; the last of two for one group counts. */
export function rolesByGroup(pairs: readonly string[]): ReadonlyMap<string, MemberRole> {
  return new Map(
    pairs.map((pair) => {
      const at = pair.lastIndexOf('=')
      return [pair.slice(0, at), pair.slice(at + 1) as MemberRole]
    }),
  )
}
