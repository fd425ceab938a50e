// Tokens by OAuth2 client credentials, with a real token endpoint and a real target: when one is fetched,
// what is asked for, and what becomes of an attempt without one.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  createHttpHandlerRig,
  type HttpDefinition,
  type HttpHandlerRig,
} from '../support/http-handler-rig.ts'
import { answer, hang, ok, redirect } from '../support/target-behaviours.ts'

const json = (value: unknown) => ok(JSON.stringify(value), { 'content-type': 'application/json' })

let rig: HttpHandlerRig
beforeAll(async () => {
  rig = await createHttpHandlerRig()
})
afterAll(() => rig.dispose())
afterEach(() => rig.secrets.clear())

const lastCall = () => rig.target.ledger.at(-1)

/** Calls `/` of the target, which does as it is told. */
async function executed(
  definition: Partial<HttpDefinition>,
  behaviour = ok(),
  changes: Parameters<HttpHandlerRig['request']>[1] = {},
) {
  rig.target.program('/', behaviour)
  return await rig.handler.execute(rig.request(definition, changes))
}

describe('tokens by OAuth2', () => {
  const oauth2 = (more: object = {}) => ({
    tokenUrl: rig.target.url('/token'),
    clientId: 'me & you',
    clientSecret: { secret: 'client' },
    ...more,
  })
  let tenants = 0
  /** A tenant of its own each, so that no token is there from before. */
  const newTenant = () => `019ad0c1-7f3e-7c63-9a52-${(tenants += 1).toString(16).padStart(12, '0')}`
  const token = (text: string, more: object = {}) =>
    json({ access_token: text, token_type: 'Bearer', expires_in: 3600, ...more })

  it('are fetched once, sent, and shared by all calls that ask for the same', async () => {
    rig.secrets.set('client', 'p=ss&word')
    rig.target.program('/token', token('token-one'))
    const before = rig.target.callsTo('/token').length
    const tenantId = newTenant()
    const definition = { oauth2: oauth2({ scopes: ['read', 'write'], audience: 'https://api.test' }) }
    rig.target.program('/', ok())
    const calls = Array.from({ length: 5 }, () => rig.handler.execute(rig.request(definition, { tenantId })))
    expect((await Promise.all(calls)).every(({ outcome }) => outcome === 'succeeded')).toBe(true)
    await executed(definition, ok(), { tenantId })
    expect(lastCall()?.headers['authorization']).toBe('Bearer token-one')
    const [asked, ...more] = rig.target.callsTo('/token').slice(before)
    expect(more).toEqual([])
    expect(Object.fromEntries(new URLSearchParams(asked?.body))).toEqual({
      grant_type: 'client_credentials',
      scope: 'read write',
      audience: 'https://api.test',
    })
    const basic = Buffer.from('me+%26+you:p%3Dss%26word').toString('base64')
    expect(asked?.headers['authorization']).toBe(`Basic ${basic}`)
  })

  it('are asked for with id and secret in the body, where the job says so', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', token('token-two'))
    await executed({ oauth2: oauth2({ authentication: 'body' }) }, ok(), { tenantId: newTenant() })
    const asked = rig.target.callsTo('/token').at(-1)
    expect(asked?.headers).not.toHaveProperty('authorization')
    expect(new URLSearchParams(asked?.body).get('client_secret')).toBe('password')
  })

  it('of one tenant are not used for another, nor those of another secret', async () => {
    rig.target.program('/token', token('a-token'), token('b-token'), token('c-token'))
    const seen = []
    const first = newTenant()
    for (const [tenantId, secret] of [
      [first, 'one'],
      [newTenant(), 'one'],
      [first, 'two'],
    ] as const) {
      rig.secrets.set('client', secret)
      await executed({ oauth2: oauth2() }, ok(), { tenantId })
      seen.push(lastCall()?.headers['authorization'])
    }
    expect(seen).toEqual(['Bearer a-token', 'Bearer b-token', 'Bearer c-token'])
  })

  it('are fetched anew once where the target does not take them', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', token('stale-token'), token('fresh-token'))
    rig.target.program('/', answer(401), ok())
    const tenantId = newTenant()
    const result = await rig.handler.execute(rig.request({ oauth2: oauth2() }, { tenantId }))
    expect(result).toMatchObject({ outcome: 'succeeded' })
    expect(lastCall()?.headers['authorization']).toBe('Bearer fresh-token')
    const before = rig.target.callsTo('/').length
    expect(await executed({ oauth2: oauth2() }, answer(401), { tenantId })).toMatchObject({
      outcome: 'failed',
      httpStatus: 401,
      retryable: true,
    })
    expect(rig.target.callsTo('/').length - before).toBeLessThanOrEqual(2)
  })

  it('do not lead to a second call of a job that is called once at most', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', token('stale-token'), token('fresh-token'))
    rig.target.program('/', answer(401), ok())
    const before = rig.target.callsTo('/').length
    const changes = { tenantId: newTenant(), delivery: 'at_most_once' as const }
    const result = await rig.handler.execute(rig.request({ oauth2: oauth2() }, changes))
    expect(result).toMatchObject({ outcome: 'failed', httpStatus: 401 })
    expect(rig.target.callsTo('/')).toHaveLength(before + 1)
  })

  it('that are over are not used', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program(
      '/token',
      token('short-token', { expires_in: 0 }),
      token('long-token', { expires_in: '60' }),
    )
    const tenantId = newTenant()
    const seen = []
    for (let count = 0; count < 3; count += 1) {
      await executed({ oauth2: oauth2() }, ok(), { tenantId })
      seen.push(lastCall()?.headers['authorization'])
    }
    expect(seen).toEqual(['Bearer short-token', 'Bearer long-token', 'Bearer long-token'])
  })

  it.each([
    ['refuses the secret', answer(401, '{"error":"invalid_client"}'), true, '401 (invalid_client)'],
    ['refuses the request', answer(400, '{"error":"invalid_scope"}'), false, '400 (invalid_scope)'],
    ['is down', answer(503, 'sorry: password'), true, '503'],
    ['redirects', redirect(302, 'http://169.254.169.254/'), false, '302'],
    ['says nothing of use', ok('hello'), true, 'without a usable access_token'],
    ['sends a token that is none', json({ access_token: 'a\r\nb' }), true, 'without a usable access_token'],
    ['sends another type', token('password', { token_type: 'mac' }), false, 'type Bearer'],
    ['names its error in its own words', answer(401, '{"error":"The password was wrong"}'), true, '401;'],
  ])('are missing where the endpoint %s', async (_name, behaviour, retryable, words) => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', behaviour)
    const before = rig.target.callsTo('/').length
    const result = await executed({ oauth2: oauth2() }, ok(), { tenantId: newTenant() })
    expect(result).toMatchObject({ outcome: 'failed', retryable, error: { code: 'oauth2_failed' } })
    expect(JSON.stringify(result)).toContain(words)
    expect(JSON.stringify(result)).not.toContain('password')
    expect(rig.target.callsTo('/')).toHaveLength(before)
  })

  it('are not asked for at an address that is denied', async () => {
    rig.secrets.set('client', 'password')
    const tokenUrl = 'http://169.254.169.254/token'
    expect(await executed({ oauth2: oauth2({ tokenUrl }) }, ok(), { tenantId: newTenant() })).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'target_denied', message: expect.stringContaining('token endpoint') as string },
    })
  })

  it('are waited for no longer than the attempt may take', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', hang)
    const result = await executed({ oauth2: oauth2() }, ok(), { tenantId: newTenant(), timeoutMs: 200 })
    expect(result).toMatchObject({ outcome: 'failed', retryable: true })
  })

  it('are masked where the target repeats them', async () => {
    rig.secrets.set('client', 'password')
    rig.target.program('/token', token('token-to-be-hidden'))
    const result = await executed({ oauth2: oauth2() }, ok('you sent token-to-be-hidden'), {
      tenantId: newTenant(),
    })
    expect(result).toMatchObject({ outcome: 'succeeded', response: 'you sent ***' })
  })
})
