// Members of a tenant: who may give which role, who may change whom, and that a tenant keeps an owner. How
// they come in is shown in people.test.ts.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'
import { peopleRig } from '../support/people-rig.ts'

let t: TestApi
let ownerKey: string
beforeAll(async () => {
  t = await startTestApi()
  ownerKey = await t.keyFor('acme', ['admin', 'platform'])
})
afterAll(() => t.close())

const { accept, member } = peopleRig(() => ({ t, ownerKey }))

describe('members', () => {
  it('are given no role that may do more than who gives it, nor changed by who may do less', async () => {
    const admin = await member('admin')
    const owner = await member('owner')
    const viewer = await member('viewer')
    const body = { email: 'new-owner@example.com', role: 'owner' }
    const calls = [
      t.call('POST', '/v1/members', { key: admin.token, body }),
      t.call('PATCH', `/v1/members/${viewer.id}`, { key: admin.token, body: { role: 'owner' } }),
      t.call('PATCH', `/v1/members/${owner.id}`, { key: admin.token, body: { role: 'viewer' } }),
      t.call('PATCH', `/v1/members/${owner.id}`, { key: admin.token, body: { state: 'disabled' } }),
      t.call('POST', `/v1/members/${owner.id}/invite`, { key: admin.token }),
      t.call('DELETE', `/v1/members/${owner.id}`, { key: admin.token }),
      t.call('POST', '/v1/members', { key: viewer.token, body: { ...body, role: 'viewer' } }),
    ]
    for (const { body: answer } of await Promise.all(calls))
      expect(answer).toMatchObject({ status: 403, code: 'forbidden' })
    const down = await t.call('PATCH', `/v1/members/${viewer.id}`, {
      key: admin.token,
      body: { role: 'admin' },
    })
    expect(down.body).toMatchObject({ role: 'admin' })
  })

  it('lose their keys with their place', async () => {
    const ada = await member('admin')
    const made = await t.call('POST', '/v1/keys', {
      key: ada.token,
      body: { name: 'of-ada', scopes: ['read'] },
    })
    expect(made.status).toBe(201)
    expect((await t.call('GET', '/v1/jobs', { key: made.body.secret })).status).toBe(200)
    await t.call('PATCH', `/v1/members/${ada.id}`, { key: ownerKey, body: { state: 'disabled' } })
    expect((await t.call('GET', '/v1/jobs', { key: made.body.secret })).status).toBe(401)
    await t.call('PATCH', `/v1/members/${ada.id}`, { key: ownerKey, body: { state: 'active' } })
    // ended for good: whoever had one while its owner was out gets no further by his return
    expect((await t.call('GET', '/v1/jobs', { key: made.body.secret })).status).toBe(401)
    expect((await t.call('DELETE', `/v1/members/${ada.id}`, { key: ownerKey })).status).toBe(204)
    for (const key of [made.body.secret, ada.token])
      expect((await t.call('GET', '/v1/jobs', { key })).status).toBe(401)
  })

  it('who never came in are invited again by being let in again', async () => {
    const { body } = await t.call('POST', '/v1/members', {
      key: ownerKey,
      body: { email: 'late@example.com', role: 'viewer' },
    })
    const set = (state: string) =>
      t.call('PATCH', `/v1/members/${body.id}`, { key: ownerKey, body: { state } })
    expect((await set('active')).body).toMatchObject({ status: 409, code: 'invalid_state' })
    expect((await set('disabled')).body.state).toBe('disabled')
    expect((await accept(body.inviteToken)).status).toBe(401)
    expect((await set('active')).body.state).toBe('invited')
    expect((await accept(body.inviteToken)).status).toBe(201)
  })

  it('of another tenant are as unknown as nobody', async () => {
    const there = await t.keyFor('initech', ['admin'])
    const ada = await member('viewer')
    for (const [method, path] of [
      ['GET', `/v1/members/${ada.id}`],
      ['PATCH', `/v1/members/${ada.id}`],
      ['POST', `/v1/members/${ada.id}/invite`],
      ['DELETE', `/v1/members/${ada.id}`],
      ['GET', `/v1/sessions?memberId=${ada.id}`],
      ['POST', `/v1/sessions/${ada.sessionId}/revoke`],
    ] as const)
      expect((await t.call(method, path, { key: there })).status).toBe(404)
    expect((await t.call('GET', '/v1/members', { key: there })).body.items).toEqual([])
  })

  it('are invited into another tenant by the platform, whose key sees nothing of it', async () => {
    await t.keyFor('umbrella', ['read'])
    const key = await t.keyFor('acme', ['platform'])
    const body = { email: 'first@umbrella.example', role: 'owner', tenant: 'umbrella' }
    const invited = await t.call('POST', '/v1/members', { key, body })
    expect(invited.status).toBe(201)
    const { token } = (await accept(invited.body.inviteToken)).body
    const who = await t.call('GET', '/v1/whoami', { key: token })
    expect(who.body).toMatchObject({ tenant: { name: 'umbrella' }, role: 'owner' })
    for (const role of ['owner', 'admin', 'viewer']) {
      const late = { ...body, role, email: `${role}@umbrella.example` }
      const refused = await t.call('POST', '/v1/members', { key, body: late })
      expect(refused.body).toMatchObject({ status: 403, errors: [{ pointer: '/tenant' }] })
    }
    const foreign = await t.call('POST', '/v1/members', { body: { ...body, email: 'x@y.example' } })
    expect(foreign.status).toBe(403)
  })
})

describe('the last owner', () => {
  it('cannot go, and of two who remove each other at once one stays', async () => {
    const key = await t.keyFor('hooli', ['admin', 'platform'])
    const make = async (email: string) => {
      const { body } = await t.call('POST', '/v1/members', { key, body: { email, role: 'owner' } })
      return { id: body.id, token: (await accept(body.inviteToken)).body.token }
    }
    const a = await make('a@hooli.example')
    for (const [method, body] of [
      ['PATCH', { role: 'viewer' }],
      ['PATCH', { state: 'disabled' }],
      ['DELETE', undefined],
    ] as const) {
      const answer = await t.call(method, `/v1/members/${a.id}`, { key: a.token, body })
      expect(answer.body).toMatchObject({ status: 409, code: 'last_owner' })
    }
    for (let round = 0; round < 5; round++) {
      const b = await make(`b-${round}@hooli.example`)
      const answers = await Promise.all([
        t.call('PATCH', `/v1/members/${b.id}`, { key, body: { role: 'viewer' } }),
        t.call('PATCH', `/v1/members/${a.id}`, { key, body: { role: 'viewer' } }),
      ])
      expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409])
      const kept = answers[0]?.status === 200 ? a : b
      await t.call('PATCH', `/v1/members/${a.id}`, { key, body: { role: 'owner' } })
      if (kept === b) await t.call('PATCH', `/v1/members/${b.id}`, { key, body: { role: 'viewer' } })
    }
  })
})
