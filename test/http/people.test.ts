// People: invited, signed in by password, with a session in a cookie or as a token; what each role may do to
// members; how sessions end, and how fast that shows on another node. Hashes are cheap here; that production
// takes scrypt with N = 2^17 is shown in test/domain/passwords.test.ts.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createSessionDirectory } from '../../packages/server/src/postgres/catalog/people-store.ts'
import { createSessionAuthenticator } from '../../packages/server/src/security/credentials.ts'
import { type Answer, eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { password, peopleRig } from '../support/people-rig.ts'
import { testOrigin } from '../support/test-people.ts'

const other = 'quiet river 7 of copper'
const fromHere = { origin: testOrigin, 'sec-fetch-site': 'same-origin' }

let t: TestApi
let ownerKey: string
beforeAll(async () => {
  t = await startTestApi()
  ownerKey = await t.keyFor('acme', ['admin', 'platform'])
})
afterAll(() => t.close())

const { invite, accept, member } = peopleRig(() => ({ t, ownerKey }))
const signIn = (email: string, more: Record<string, unknown> = {}, headers = {}) =>
  t.call('POST', '/v1/sessions', { key: null, headers, body: { email, password, answer: 'token', ...more } })

/** `name=value` of the cookie that an answer sets. */
const cookieOf = (answer: Answer): string => String(answer.headers['set-cookie']).split(';')[0] ?? ''

async function inBrowser(email: string): Promise<string> {
  const answer = await signIn(email, { answer: 'cookie' }, fromHere)
  expect(answer.status).toBe(201)
  return cookieOf(answer)
}
const withCookie = (cookie: string, headers: Record<string, string> = {}) => ({
  key: null,
  headers: { cookie, ...headers },
})

describe('an invitation', () => {
  it('is good for one use, and makes a member with the role it names', async () => {
    const { inviteToken, id, email } = await invite('operator')
    expect(inviteToken).toMatch(/^bfi_[0-9a-z]{12}_[\w-]{43}$/)
    const first = await accept(inviteToken, { name: 'Ada Lovelace' })
    expect(first.status).toBe(201)
    expect(first.body.member).toMatchObject({
      id,
      email,
      name: 'Ada Lovelace',
      role: 'operator',
      state: 'active',
    })
    const again = await accept(inviteToken, { password: other })
    expect(again.body).toMatchObject({ status: 401, code: 'sign_in_failed' })
    expect((await signIn(email)).status).toBe(201)
    expect((await signIn(email, { password: other })).status).toBe(401)
  })

  it('stands nowhere in the database in clear, and neither do passwords and sessions', async () => {
    const { inviteToken, email } = await invite('viewer')
    const { token } = (await accept(inviteToken)).body
    const rows = await t.database.sql(
      `SELECT m::text AS row FROM belfry.member m UNION ALL SELECT s::text FROM belfry.person_session s
       UNION ALL SELECT i::text FROM belfry.idempotency_key i`,
    )
    const all = JSON.stringify(rows)
    expect(all).toContain(email)
    for (const secret of [password, inviteToken.slice(17), token.slice(17)]) expect(all).not.toContain(secret)
  })

  it('is over after its time, and void once there is a new one', async () => {
    const { id, inviteToken } = await invite('viewer')
    const renewed = await t.call('POST', `/v1/members/${id}/invite`, { key: ownerKey })
    expect(renewed.status).toBe(200)
    expect((await accept(inviteToken)).status).toBe(401)
    await t.database.sql(`UPDATE belfry.member SET invite_ends_at = now() - interval '1 s' WHERE id = $1`, [
      id,
    ])
    expect((await accept(renewed.body.inviteToken)).status).toBe(401)
  })

  it.each(['short', 'passwordpassword', 'aaaaaaaaaaaaaaaa', 'qwertyuiop1234', '123456789012'])(
    'refuses the weak password %s, in words, and stays good',
    async (weak) => {
      const { inviteToken } = await invite('viewer')
      const { body } = await accept(inviteToken, { password: weak })
      expect(body).toMatchObject({ status: 400, code: 'invalid_request' })
      expect(body.errors[0]?.pointer).toBe('/password')
      expect((await accept(inviteToken)).status).toBe(201)
    },
  )

  it('sets a new password for a member who forgot his, and ends his sessions', async () => {
    const ada = await member('viewer')
    const { inviteToken } = (await t.call('POST', `/v1/members/${ada.id}/invite`, { key: ownerKey })).body
    expect((await accept(inviteToken, { password: other })).status).toBe(201)
    expect((await signIn(ada.email)).status).toBe(401)
    expect((await signIn(ada.email, { password: other })).status).toBe(201)
    await eventually(async () => (await t.call('GET', '/v1/whoami', { key: ada.token })).status === 401)
  })

  it('is not made by a dry run, and is not told again to an Idempotency-Key', async () => {
    const body = { email: 'dry@example.com', role: 'viewer' }
    const dry = await t.call('POST', '/v1/members?dryRun=true', { key: ownerKey, body })
    expect(dry.body.inviteToken).toBeNull()
    const headers = { 'idempotency-key': 'invite-1' }
    const first = await t.call('POST', '/v1/members', { key: ownerKey, body, headers })
    const second = await t.call('POST', '/v1/members', { key: ownerKey, body, headers })
    expect(second.body.id).toBe(first.body.id)
    expect(second.body.inviteToken).toBeNull()
    const taken = await t.call('POST', '/v1/members', {
      key: ownerKey,
      body: { ...body, email: 'DRY@example.com' },
    })
    expect(taken.body).toMatchObject({ status: 409, code: 'name_taken' })
  })
})

describe('signing in', () => {
  it('says the same of a wrong password and of nobody, and of a member who is disabled', async () => {
    const ada = await member('viewer')
    const gone = await member('viewer')
    await t.call('PATCH', `/v1/members/${gone.id}`, { key: ownerKey, body: { state: 'disabled' } })
    const answers = [
      await signIn(ada.email, { password: 'wrong' }),
      await signIn('nobody@example.com'),
      await signIn(gone.email),
      await signIn(ada.email, { tenant: 'globex' }),
    ]
    for (const { status, body } of answers) {
      expect(status).toBe(401)
      expect({ ...body, instance: '' }).toEqual({ ...answers[0]?.body, instance: '' })
    }
  })

  it('takes the tenant where one address is in several', async () => {
    const key = await t.keyFor('globex', ['admin'])
    const { email } = await member('viewer')
    const there = await t.call('POST', '/v1/members', { key, body: { email, role: 'viewer' } })
    expect((await accept(there.body.inviteToken)).status).toBe(201)
    expect((await signIn(email)).status).toBe(401)
    for (const tenant of ['acme', 'globex']) {
      const { token } = (await signIn(email, { tenant })).body
      const who = await t.call('GET', '/v1/whoami', { key: token })
      expect(who.body).toMatchObject({
        tenant: { name: tenant },
        role: 'viewer',
        principal: { kind: 'person' },
      })
    }
  })

  it('gives the permissions of the role and no more', async () => {
    const ada = await member('viewer')
    expect((await t.call('GET', '/v1/jobs', { key: ada.token })).status).toBe(200)
    const denied = await t.call('POST', '/v1/jobs', { key: ada.token, body: httpJob('by-viewer') })
    expect(denied.body).toMatchObject({ status: 403, code: 'forbidden' })
    await t.call('PATCH', `/v1/members/${ada.id}`, { key: ownerKey, body: { role: 'developer' } })
    const made = await t.call('POST', '/v1/jobs', { key: ada.token, body: httpJob('by-developer') })
    expect(made.status).toBe(201)
  })

  it('puts the session into a cookie that scripts cannot read, and into nothing else', async () => {
    const { email } = await member('viewer')
    const answer = await signIn(email, { answer: 'cookie' }, fromHere)
    expect(answer.body.token).toBeNull()
    const cookie = String(answer.headers['set-cookie'])
    expect(cookie).toMatch(
      /^__Host-belfry=bfs_[0-9a-z]{12}_[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/,
    )
    expect((await t.call('GET', '/v1/whoami', withCookie(cookieOf(answer)))).status).toBe(200)
  })

  it('by cookie is refused from another site (login CSRF)', async () => {
    const { email } = await member('viewer')
    for (const headers of [{}, { origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
      const { body, headers: got } = await signIn(email, { answer: 'cookie' }, headers)
      expect(body).toMatchObject({ status: 403, code: 'cross_origin' })
      expect(got['set-cookie']).toBeUndefined()
    }
  })

  it('is on record, done and refused, without the password', async () => {
    const { email } = await member('auditor')
    await signIn(email, { password: 'wrong-password-of-mine' })
    await t.audit.flush()
    const rows = await t.database.sql<{ entry: string }>('SELECT i::text AS entry FROM belfry.audit_inbox i')
    const all = rows.map(({ entry }) => entry)
    const own = all.filter((entry) => entry.includes(email) && entry.includes('session.create'))
    expect(own.some((entry) => entry.includes('done'))).toBe(true)
    expect(own.some((entry) => entry.includes('refused'))).toBe(true)
    expect(all.join()).not.toContain('wrong-password-of-mine')
  })
})

// ui.csrf_cross_origin, ui.csrf_text_plain, ui.csrf_null_origin, ui.csrf_no_origin_cross_site, ui.csrf_get
describe('a change with the cookie', () => {
  const body = { name: 'made-by-cookie', handler: httpJob('x').handler }
  it.each([
    ['another origin (ui.csrf_cross_origin)', { origin: 'https://evil.example' }],
    ['a null origin (ui.csrf_null_origin)', { origin: 'null' }],
    ['no origin, from another site (ui.csrf_no_origin_cross_site)', { 'sec-fetch-site': 'cross-site' }],
    ['a page of a sister host', { origin: testOrigin, 'sec-fetch-site': 'same-site' }],
    ['the same host without TLS', { origin: testOrigin.replace('https', 'http') }],
    ['a longer name', { origin: `${testOrigin}.evil.example` }],
    ['nobody knows where', {}],
  ])('from %s is refused', async (_, headers) => {
    const cookie = await inBrowser((await member('owner')).email)
    const before = await t.counts()
    const { body: answer } = await t.call('POST', '/v1/jobs', { ...withCookie(cookie, headers), body })
    expect(answer).toMatchObject({ status: 403, code: 'cross_origin' })
    expect(await t.counts()).toEqual(before)
  })

  it('from the own page is taken; as text/plain it is not (ui.csrf_text_plain)', async () => {
    const cookie = await inBrowser((await member('owner')).email)
    const plain = { ...fromHere, 'content-type': 'text/plain' }
    const text = { ...withCookie(cookie, plain), raw: JSON.stringify(body) }
    expect((await t.call('POST', '/v1/jobs', text)).status).toBe(415)
    expect((await t.call('POST', '/v1/jobs', { ...withCookie(cookie, fromHere), body })).status).toBe(201)
  })

  it('needs its method: no GET changes anything (ui.csrf_get)', async () => {
    const cookie = await inBrowser((await member('owner')).email)
    const { status } = await t.call(
      'GET',
      '/v1/jobs/019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f/pause',
      withCookie(cookie),
    )
    expect([404, 405]).toContain(status)
  })

  it('is not what an API key in the header needs', async () => {
    const headers = { origin: 'https://evil.example' }
    const made = await t.call('POST', '/v1/jobs', {
      key: ownerKey,
      headers,
      body: { ...body, name: 'by-key' },
    })
    expect(made.status).toBe(201)
  })

  it('loses to the header: a wrong key is not mended by a cookie', async () => {
    const cookie = await inBrowser((await member('owner')).email)
    const { status } = await t.call('GET', '/v1/whoami', { key: 'bfy_nope', headers: { cookie } })
    expect(status).toBe(401)
  })
})

describe('a session', () => {
  it('ends by signing out: the cookie is cleared and the token is dead (ui.logout)', async () => {
    const cookie = await inBrowser((await member('viewer')).email)
    const out = await t.call('POST', '/v1/sessions/end', withCookie(cookie, fromHere))
    expect(out.status).toBe(200)
    expect(out.headers['set-cookie']).toContain('Max-Age=0')
    expect((await t.call('GET', '/v1/whoami', withCookie(cookie))).status).toBe(401)
    const byKey = await t.call('POST', '/v1/sessions/end', { key: ownerKey })
    expect(byKey.body).toMatchObject({ status: 409, code: 'invalid_state' })
  })

  it('is listed and revoked by its person, and by others only with the right', async () => {
    const ada = await member('viewer')
    const second = (await signIn(ada.email)).body
    const list = await t.call('GET', '/v1/sessions', { key: ada.token })
    expect(list.body.items.map(({ id }) => id)).toEqual([second.session.id, ada.sessionId])
    expect(list.body.items).toMatchObject([{ current: false }, { current: true }])
    const stranger = await member('viewer')
    const path = `/v1/sessions/${second.session.id}/revoke`
    expect((await t.call('POST', path, { key: stranger.token })).status).toBe(404)
    const looked = await t.call('GET', `/v1/sessions?memberId=${ada.id}`, { key: stranger.token })
    expect(looked.status).toBe(403)
    expect((await t.call('POST', path, { key: ada.token })).status).toBe(200)
    expect((await t.call('GET', '/v1/whoami', { key: second.token })).status).toBe(401)
    const mine = await t.call('POST', `/v1/sessions/${ada.sessionId}/revoke`, { key: ownerKey })
    expect(mine.status).toBe(200)
    const owner = await member('owner')
    const admin = await member('admin')
    const above = await t.call('POST', `/v1/sessions/${owner.sessionId}/revoke`, { key: admin.token })
    expect(above.body).toMatchObject({ status: 403, code: 'forbidden' })
  })

  it('is not for a key of the same person, which may do what its scopes say', async () => {
    const admin = await member('admin')
    const body = { name: `of-${admin.email.replace('@', '-')}`, scopes: ['read'] }
    const { secret } = (await t.call('POST', '/v1/keys', { key: admin.token, body })).body
    const revoke = `/v1/sessions/${admin.sessionId}/revoke`
    expect((await t.call('POST', revoke, { key: secret })).status).toBe(404)
    expect((await t.call('GET', `/v1/sessions?memberId=${admin.id}`, { key: secret })).status).toBe(403)
    expect((await t.call('GET', '/v1/sessions', { key: secret })).status).toBe(400)
  })

  it('is dead on another node within 5 s of being revoked, or of its member being disabled', async () => {
    const ada = await member('viewer')
    const bob = await member('viewer')
    const directory = createSessionDirectory({ db: t.database.open() })
    const elsewhere = createSessionAuthenticator({ directory, clock: realClock })
    for (const { token } of [ada, bob]) expect(await elsewhere.authenticate(token)).toBeDefined()
    const startedMs = performance.now()
    await t.call('POST', `/v1/sessions/${ada.sessionId}/revoke`, { key: ownerKey })
    await t.call('PATCH', `/v1/members/${bob.id}`, { key: ownerKey, body: { state: 'disabled' } })
    for (const { token } of [ada, bob])
      await eventually(async () => (await elsewhere.authenticate(token)) === undefined)
    expect(performance.now() - startedMs).toBeLessThan(5_000)
  })

  it('ends without requests, and in any case after its life', async () => {
    const idle = await member('viewer')
    const old = await member('viewer')
    const directory = createSessionDirectory({ db: t.database.open() })
    const fresh = () => createSessionAuthenticator({ directory, clock: realClock })
    // not the idle one: what is seen is noted a moment later
    expect((await fresh().authenticate(old.token))?.role).toBe('viewer')
    await t.database.sql(
      `UPDATE belfry.person_session SET last_seen_at = now() - idle - interval '1 s' WHERE id = $1`,
      [idle.sessionId],
    )
    await t.database.sql(`UPDATE belfry.person_session SET ends_at = now() WHERE id = $1`, [old.sessionId])
    expect(await fresh().authenticate(idle.token)).toBeUndefined()
    expect(await fresh().authenticate(old.token)).toBeUndefined()
  })

  it('is proved by the whole token', async () => {
    const { token } = await member('viewer')
    const wrong = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`
    for (const key of [wrong, token.slice(0, 16), token.replace('bfs', 'bfy'), token.replace('bfs', 'bfi')])
      expect((await t.call('GET', '/v1/whoami', { key })).status).toBe(401)
  })
})

describe('the own password', () => {
  it.each([
    ['was reset', `UPDATE belfry.member SET password_hash = 'reset' WHERE id = $1`],
    [
      'was changed in a session that ended',
      `UPDATE belfry.person_session SET ended_at = now() WHERE member_id = $1`,
    ],
  ])('that %s while the new one was hashed stays as it is', async (_, meanwhile) => {
    const ada = await member('viewer')
    await t.call('GET', '/v1/whoami', { key: ada.token })
    const client = new pg.Client(t.database.adminConnection)
    await client.connect()
    try {
      await client.query('BEGIN')
      await client.query(meanwhile, [ada.id])
      const hashOf = `SELECT password_hash FROM belfry.member WHERE id = $1`
      const { rows: before } = await client.query(hashOf, [ada.id])
      const body = { currentPassword: password, newPassword: other }
      const changing = t.call('POST', '/v1/password', { key: ada.token, body })
      await eventually(async () => (await t.database.waiting()) > 0)
      await client.query('COMMIT')
      expect((await changing).body).toMatchObject({ status: 401, code: 'sign_in_failed' })
      expect((await client.query(hashOf, [ada.id])).rows).toEqual(before)
      const { rows } = await client.query(
        `SELECT outcome FROM belfry.audit_inbox WHERE action = 'member.password' AND subject_id = $1`,
        [ada.id],
      )
      expect(rows).toEqual([])
    } finally {
      await client.end()
    }
  })

  it('is changed with the old one, and ends every other session', async () => {
    const ada = await member('viewer')
    const second = (await signIn(ada.email)).body
    const change = (currentPassword: string, newPassword: string) =>
      t.call('POST', '/v1/password', { key: ada.token, body: { currentPassword, newPassword } })
    expect((await change('wrong', other)).body).toMatchObject({ status: 401, code: 'sign_in_failed' })
    expect((await change(password, 'person-0-example')).status).toBe(400)
    expect((await change(password, other)).status).toBe(204)
    expect((await t.call('GET', '/v1/whoami', { key: ada.token })).status).toBe(200)
    await eventually(async () => (await t.call('GET', '/v1/whoami', { key: second.token })).status === 401)
    const byKey = { key: ownerKey, body: { currentPassword: password, newPassword: other } }
    expect((await t.call('POST', '/v1/password', byKey)).status).toBe(409)
  })
})
