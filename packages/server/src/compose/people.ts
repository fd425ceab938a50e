/**
 * How people come in, from the configuration: sign-ins, cookies, and the OpenID provider where one is set. A
 * process that is reached over a network and has no https address has no cookies.
 */
import type { Clock } from '../ports/clock.ts'
import type { Config } from '../config/schema.ts'
import { rolesByGroup } from '../config/people-fields.ts'
import { createSignIns, type SignInOptions } from '../engine/people/sign-ins.ts'
import type { PeopleOptions } from '../http/api.ts'
import { createSessionCookies } from '../http/session-cookies.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { Ids } from '../ports/ids.ts'
import { createPeopleDirectory } from '../postgres/catalog/people-store.ts'
import type { Database } from '../postgres/database.ts'
import { createEgressFetch } from '../security/egress/egress-fetch.ts'
import { createOidcClient } from '../security/oidc.ts'
import { createPasswords } from '../security/passwords.ts'
import { inviteMint, sessionMint } from '../security/session-tokens.ts'

export function openPeople(
  config: Config,
  parts: {
    readonly db: Database
    readonly catalog: Catalog
    readonly egress: EgressAgent
    readonly ids: Ids
    readonly notes: AuditNotes
    readonly clock: Clock
  },
): PeopleOptions {
  const { db, catalog, ids, notes } = parts
  const provider = providerOf(config, parts)
  const signIns = createSignIns({
    catalog,
    directory: createPeopleDirectory({ db }),
    passwords: createPasswords(),
    sessions: sessionMint,
    invites: inviteMint,
    ids,
    notes,
    idleMs: config.sessionIdleMs,
    lifeMs: config.sessionLifeMs,
    ...(provider === undefined ? {} : { provider }),
  })
  const cookies = createSessionCookies({
    publicUrl: config.publicUrl,
    listensOnLoopback: /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(config.host),
  })
  return { signIns, cookies }
}

function providerOf(
  config: Config,
  { egress, clock }: { readonly egress: EgressAgent; readonly clock: Clock },
): SignInOptions['provider'] {
  const { oidcIssuer: issuer, oidcClientId: clientId, publicUrl } = config
  const redirectUrl =
    config.oidcRedirectUrl ?? (publicUrl === undefined ? undefined : `${publicUrl}/v1/oidc/callback`)
  if (issuer === undefined || clientId === undefined || redirectUrl === undefined) return undefined
  const client = createOidcClient({
    issuer,
    clientId,
    clientSecret: config.oidcClientSecret,
    redirectUrl,
    scope: config.oidcScope,
    groupsClaim: config.oidcGroupsClaim,
    fetch: createEgressFetch({ egress, operatorUrls: [issuer] }),
    clock,
  })
  const rules = {
    domains: config.oidcDomains,
    roleOfGroup: rolesByGroup(config.oidcRoles),
    defaultRole: config.oidcDefaultRole ?? null,
  }
  return { client, tenant: config.oidcTenant, rules }
}
