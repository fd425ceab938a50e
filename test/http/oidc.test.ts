// Signing in with OpenID Connect, against a provider of our own on loopback and through the real egress
// module: who comes in with which role, what a lying provider and a meddling browser are refused, and that
// nothing is asked for but what the discovery document names.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { AuditEntryView, MemberRole } from '@belfry/contract'
import type { OidcClient } from '../../packages/server/src/ports/people.ts'
import { localPath } from '../../packages/server/src/domain/people/local-path.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { createEgressFetch } from '../../packages/server/src/security/egress/egress-fetch.ts'
import { createOidcClient } from '../../packages/server/src/security/oidc.ts'
import { type Answer, eventually, startTestApi, type TestApi } from '../support/api.ts'
import { type Lie, type OidcIssuer, startOidcIssuer } from '../support/oidc-issuer.ts'
import { realClock } from '../support/real-clock.ts'
import { testOrigin } from '../support/test-people.ts'

let t: TestApi
let issuer: OidcIssuer
let client: OidcClient
let ownerKey: string
const egress = createEgress({
  allowCidrs: [],
  denyCidrs: [],
  allowPorts: [443],
  clock: realClock,
  connectionsPerOrigin: 8,
})
const rules = {
  domains: ['example.com'],
  roleOfGroup: new Map<string, MemberRole>([
    ['ops', 'operator'],
    ['chiefs', 'owner'],
  ]),
  defaultRole: null,
}

beforeAll(async () => {
  issuer = await startOidcIssuer()
  client = createOidcClient({
    issuer: issuer.url,
    clientId: issuer.clientId,
    clientSecret: issuer.clientSecret,
    redirectUrl: `${testOrigin}/v1/oidc/callback`,
    scope: 'openid email profile',
    groupsClaim: 'groups',
    fetch: createEgressFetch({ egress, operatorUrls: [issuer.url] }),
    clock: realClock,
  })
  t = await startTestApi({}, undefined, { provider: { client, tenant: 'acme', rules } })
  ownerKey = await t.keyFor('acme', ['admin', 'platform'])
})
beforeEach(() => {
  issuer.lie = 'none'
  issuer.userinfoOnly = []
  issuer.asked.length = 0
})
afterAll(async () => {
  await t.close()
  await egress.close()
  await issuer.close()
})

let subjects = 0
const somebody = (more: Record<string, unknown> = {}) => {
  const sub = `subject-${subjects++}`
  return {
    sub,
    email: `${sub}@example.com`,
    email_verified: true,
    name: 'Grace Hopper',
    groups: ['ops'],
    ...more,
  }
}

const pairOf = (cookie: unknown): string => String(cookie).split(';')[0] ?? ''

/** As far as the provider sends the browser back to: the path with its query, and the cookie to bring. */
async function goThere(next?: string): Promise<{ back: string; cookie: string }> {
  const query = next === undefined ? '' : `?next=${encodeURIComponent(next)}`
  const start = await t.call('GET', `/v1/oidc/start${query}`, { key: null })
  expect(start.status).toBe(303)
  const answer = await fetch(String(start.headers['location']), { redirect: 'manual' })
  expect(answer.status).toBe(302)
  const url = new URL(answer.headers.get('location') ?? '')
  expect(url.origin).toBe(testOrigin)
  return { back: `${url.pathname}${url.search}`, cookie: pairOf(start.headers['set-cookie']) }
}

const comeBack = (back: string, cookie?: string): Promise<Answer> =>
  t.call('GET', back, { key: null, headers: cookie === undefined ? {} : { cookie } })

async function signIn(person: ReturnType<typeof somebody>, next?: string): Promise<Answer> {
  issuer.person = person
  const { back, cookie } = await goThere(next)
  return comeBack(back, cookie)
}

async function whoIs(answer: Answer): Promise<Answer> {
  const [, session] = answer.headers['set-cookie'] as unknown as string[]
  return t.call('GET', '/v1/whoami', { key: null, headers: { cookie: pairOf(session) } })
}

describe('somebody whom the provider vouches for', () => {
  it('comes in with the role of his group, at the place where he wanted to go', async () => {
    const answer = await signIn(somebody(), '/ui/runs?state=failed')
    expect(answer.status).toBe(303)
    expect(answer.headers['location']).toBe('/ui/runs?state=failed')
    const [cleared, session] = answer.headers['set-cookie'] as unknown as string[]
    expect(cleared).toContain('Max-Age=0')
    expect(session).toMatch(/^__Host-belfry=bfs_.*; HttpOnly; SameSite=Lax; Secure$/)
    const who = await whoIs(answer)
    expect(who.body).toMatchObject({ role: 'operator', principal: { kind: 'person', name: 'Grace Hopper' } })
    expect(issuer.asked).toContain('/token')
  })

  it('is told of by userinfo where the token says less', async () => {
    issuer.userinfoOnly = ['email', 'email_verified', 'groups']
    const answer = await signIn(somebody())
    expect((await whoIs(answer)).body.role).toBe('operator')
    expect(issuer.asked).toContain('/userinfo')
  })

  it('keeps his account when his address changes, and follows his groups at each sign-in', async () => {
    const grace = somebody()
    const first = (await whoIs(await signIn(grace))).body
    const moved = { ...grace, email: 'grace@example.com', groups: ['chiefs', 'ops'] }
    const second = (await whoIs(await signIn(moved))).body
    expect(second).toMatchObject({ role: 'owner' })
    expect((second as unknown as { principal: unknown }).principal).toEqual(
      (first as unknown as { principal: unknown }).principal,
    )
    // the last owner stays one, whatever the groups say
    expect((await whoIs(await signIn(grace))).body.role).toBe('owner')
  })

  it('is refused once no group gives him a role, and his other sessions end with that', async () => {
    const person = somebody()
    const first = await signIn(person)
    expect((await whoIs(first)).status).toBe(200)
    const lost = await signIn({ ...person, groups: [] })
    expect(lost.body).toMatchObject({ status: 401, code: 'sign_in_failed' })
    await eventually(async () => (await whoIs(first)).status === 401)
  })

  it('takes the place that somebody invited him to, with the role of the invitation', async () => {
    const person = somebody({ groups: [] })
    const body = { email: person.email, role: 'auditor' }
    const invited = await t.call('POST', '/v1/members', { key: ownerKey, body })
    expect((await whoIs(await signIn(person))).body.role).toBe('auditor')
    const member = await t.call('GET', `/v1/members/${invited.body.id}`, { key: ownerKey })
    expect(member.body).toMatchObject({ state: 'active', signsInWith: 'oidc', inviteEndsAt: null })
    const link = { token: invited.body.inviteToken, password: 'gull-harbour-41-lantern', answer: 'token' }
    expect((await t.call('POST', '/v1/invites/accept', { key: null, body: link })).status).toBe(401)
  })

  it.each([
    ['nobody has invited and no group names', { groups: ['others'] }],
    ['has an address that is not verified', { email_verified: false }],
    ['has an address of another domain', { email: 'grace@example.com.evil.example' }],
    ['has no address', { email: undefined }],
  ])('does not come in if he %s', async (_, more) => {
    const answer = await signIn(somebody(more))
    expect(answer.body).toMatchObject({ status: 401, code: 'sign_in_failed' })
    expect(answer.headers['set-cookie']).toBeUndefined()
  })

  it('does not come in once he is disabled here', async () => {
    const person = somebody()
    await signIn(person)
    const list = await t.call('GET', '/v1/members?limit=1000', { key: ownerKey })
    const found = list.body.items.find((each) => JSON.stringify(each).includes(person.email))
    await t.call('PATCH', `/v1/members/${found?.id}`, { key: ownerKey, body: { state: 'disabled' } })
    expect((await signIn(person)).body).toMatchObject({ status: 401, code: 'sign_in_failed' })
  })
})

// token.jwt_alg_NoNe, token.jwt_hs_with_public_key, token.jwt_jku, token.jwt_no_exp, token.jwt_expired,
// token.jwt_signed_by_other_env: no JWT is ever a credential of the API; ID tokens are the only ones it
// reads.
describe('a provider that lies', () => {
  it.each<Lie>([
    'other_issuer',
    'other_audience',
    'other_nonce',
    'expired',
    'no_expiry',
    'foreign_key',
    'embedded_key',
    'jku',
    'unsigned',
    'hmac_with_public_key',
    'no_id_token',
    'redirecting_token_endpoint',
  ])('is refused: %s', async (lie) => {
    issuer.lie = lie
    const answer = await signIn(somebody())
    expect([401, 503]).toContain(answer.status)
    expect(['sign_in_failed', 'sign_in_unavailable']).toContain(answer.body.code)
    expect(answer.headers['set-cookie']).toBeUndefined()
    expect(issuer.asked).not.toContain('/their-keys')
    expect(issuer.asked).not.toContain('/elsewhere')
  })

  it('that is gone is said to be, and takes nobody else with it', async () => {
    const gone = await startOidcIssuer()
    await gone.close()
    const client = createOidcClient({
      issuer: gone.url,
      clientId: 'belfry',
      clientSecret: undefined,
      redirectUrl: `${testOrigin}/v1/oidc/callback`,
      scope: 'openid',
      groupsClaim: 'groups',
      fetch: createEgressFetch({ egress, operatorUrls: [gone.url] }),
      clock: realClock,
    })
    await expect(client.begin('/')).rejects.toMatchObject({ code: 'sign_in_unavailable' })
  })

  it('on a private address is asked only because the operator named it', async () => {
    const client = createOidcClient({
      issuer: issuer.url,
      clientId: 'belfry',
      clientSecret: undefined,
      redirectUrl: `${testOrigin}/v1/oidc/callback`,
      scope: 'openid',
      groupsClaim: 'groups',
      fetch: createEgressFetch({ egress, operatorUrls: [] }),
      clock: realClock,
    })
    await expect(client.begin('/')).rejects.toMatchObject({ code: 'sign_in_unavailable' })
    expect(issuer.asked).toEqual([])
  })
})

describe('what the provider changes', () => {
  async function recordOf(email: string) {
    await t.audit.flush()
    const answer = await t.call('GET', '/v1/audit?limit=200&action=member', { key: ownerKey })
    const items = answer.body.items as unknown as AuditEntryView[]
    const own = items.filter(({ subject }) => subject.name === email).reverse()
    return own.map(({ action, actor, details }) => [action, actor.name, details])
  }

  it('is on record: a new member, another role, a subject, the end of sessions', async () => {
    const person = somebody()
    for (const groups of [['ops'], ['ops'], ['chiefs'], []]) await signIn({ ...person, groups })
    expect(await recordOf(person.email)).toEqual([
      ['member.create', 'oidc', { role: 'operator' }],
      ['member.update', 'oidc', { fields: ['role'], role: 'owner' }],
      ['member.update', 'oidc', { sessionsEnded: 3 }],
    ])
    const invited = somebody({ groups: [] })
    const body = { email: invited.email, role: 'auditor' }
    await t.call('POST', '/v1/members', { key: ownerKey, body })
    await signIn(invited)
    const [, bound] = await recordOf(invited.email)
    expect(bound).toEqual(['member.update', 'oidc', { fields: ['state', 'subject'], role: 'auditor' }])
  })

  it('holds in other sessions at once', async () => {
    const person = somebody({ groups: ['chiefs'] })
    const first = await signIn(person)
    expect((await whoIs(first)).body.role).toBe('owner')
    await signIn(somebody({ groups: ['chiefs'] }))
    await signIn({ ...person, groups: ['ops'] })
    expect((await whoIs(first)).body.role).toBe('operator')
    await signIn({ ...person, groups: [] })
    expect((await whoIs(first)).status).toBe(401)
  })

  it('holds no member while it waits for the owners: two would wait for each other', async () => {
    const [first, second] = [somebody({ groups: ['chiefs'] }), somebody({ groups: ['chiefs'] })]
    for (const person of [first, second]) await signIn(person)
    const held = await t.database.hold(`SELECT FROM belfry.member WHERE email = '${first.email}' FOR UPDATE`)
    await held.take()
    try {
      const entering = signIn({ ...second, groups: ['ops'] })
      await eventually(async () => (await t.database.waiting()) > 0)
      const free = `SELECT FROM belfry.member WHERE email = '${second.email}' FOR UPDATE NOWAIT`
      await t.database.sql(free)
      await held.release()
      expect((await whoIs(await entering)).body.role).toBe('operator')
    } finally {
      await held.release()
    }
  })
})

it('failed attempts with the provider are counted by address alone', async () => {
  const limits = { perAccount: 1, perAddress: 100 }
  const strict = await startTestApi({}, undefined, { limits, provider: { client, tenant: 'acme', rules } })
  try {
    for (let attempt = 0; attempt < 5; attempt++) {
      const { back, cookie } = await goThere()
      const meddled = back.replace(/state=[^&]+/, 'state=mine')
      const answer = await strict.call('GET', meddled, { key: null, headers: { cookie } })
      expect(answer.status).toBe(401)
    }
  } finally {
    await strict.close()
  }
})

describe('a browser', () => {
  it('without its cookie, with that of another attempt, or with another state is refused', async () => {
    issuer.person = somebody()
    const one = await goThere()
    const two = await goThere()
    const meddled = one.back.replace(/state=[^&]+/, 'state=mine')
    for (const answer of [
      await comeBack(one.back),
      await comeBack(one.back, two.cookie),
      await comeBack(meddled, one.cookie),
      await comeBack(one.back, '__Host-belfry-oidc=bm90LWpzb24'),
      await comeBack('/v1/oidc/callback?error=access_denied&state=x', one.cookie),
    ])
      expect(answer.body).toMatchObject({ status: 401, code: 'sign_in_failed' })
    expect((await comeBack(one.back, one.cookie)).status).toBe(303)
    // a code is good once
    expect((await comeBack(one.back, one.cookie)).status).toBe(401)
  })

  // ui.open_redirect
  it.each([
    '//evil.example',
    '/\\evil.example',
    'https:evil.example',
    'https://evil.example/',
    '/\t/evil.example',
    '/%0d%0aSet-Cookie:a=b',
    '/.//evil.example',
    'javascript:alert(1)',
    '/a\\b',
    '',
  ])('is sent to no other place than this server: %j (ui.open_redirect)', (next) => {
    const path = localPath(next)
    expect(path).toMatch(/^\/(?!\/)/)
    expect(new URL(path, testOrigin).origin).toBe(testOrigin)
  })

  it('is led to a path of this server by next', async () => {
    const answer = await signIn(somebody(), '//evil.example')
    expect(answer.headers['location']).toBe('/')
  })
})

describe('a server without a provider', () => {
  it('says so', async () => {
    const plain = await startTestApi()
    try {
      const ways = await plain.call('GET', '/v1/sign-in', { key: null })
      expect(ways.body).toEqual({ cookies: true, password: true, oidc: null })
      const start = await plain.call('GET', '/v1/oidc/start', { key: null })
      expect(start.body).toMatchObject({ status: 409, code: 'sign_in_off' })
      expect(start.body.detail).toContain('BELFRY_OIDC_ISSUER')
    } finally {
      await plain.close()
    }
  })
})
