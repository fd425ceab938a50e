// How often somebody may fail to sign in, by account and by address, and whose word is taken for the address.
import { afterEach, describe, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi | undefined
afterEach(async () => {
  await t?.close()
  t = undefined
})

async function open(
  limits: { perAccount?: number; perAddress?: number },
  trustedProxies: readonly string[] = [],
) {
  t = await startTestApi({ trustedProxies }, undefined, { limits })
  const { app } = t.api
  return async (email: string, from: { readonly socket: string; readonly forwarded?: string }) => {
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/v1/sessions',
      remoteAddress: from.socket,
      headers: {
        'content-type': 'application/json',
        ...(from.forwarded === undefined ? {} : { 'x-forwarded-for': from.forwarded }),
      },
      payload: JSON.stringify({ email, password: 'wrong', answer: 'token' }),
    })
    return statusCode
  }
}

describe('failed attempts to sign in', () => {
  it('are counted by account, whether there is one or not, wherever they come from', async () => {
    const fail = await open({ perAccount: 2, perAddress: 1_000 })
    expect(await fail('a@example.com', { socket: '192.0.2.1' })).toBe(401)
    expect(await fail('A@example.com', { socket: '192.0.2.2' })).toBe(401)
    expect(await fail('a@example.com', { socket: '192.0.2.3' })).toBe(429)
    expect(await fail('b@example.com', { socket: '192.0.2.3' })).toBe(401)
  })

  it('for an account that has had too many cost nobody else at that address an attempt', async () => {
    const fail = await open({ perAccount: 1, perAddress: 2 })
    const socket = '192.0.2.1'
    expect(await fail('a@example.com', { socket })).toBe(401)
    for (let more = 0; more < 5; more++) expect(await fail('a@example.com', { socket })).toBe(429)
    expect(await fail('b@example.com', { socket })).toBe(401)
    expect(await fail('c@example.com', { socket })).toBe(429)
  })

  it('are counted by address, and a header changes nothing about that', async () => {
    const fail = await open({ perAccount: 1_000, perAddress: 2 })
    const from = (forwarded: string) => ({ socket: '192.0.2.1', forwarded })
    expect(await fail('a@example.com', from('203.0.113.1'))).toBe(401)
    expect(await fail('b@example.com', from('203.0.113.2'))).toBe(401)
    expect(await fail('c@example.com', from('203.0.113.3'))).toBe(429)
    expect(await fail('c@example.com', { socket: '192.0.2.2' })).toBe(401)
  })

  it('behind a proxy that the operator named are counted by the address that it tells', async () => {
    const fail = await open({ perAccount: 1_000, perAddress: 2 }, ['10.0.0.0/8'])
    const by = (forwarded: string) => ({ socket: '10.1.2.3', forwarded })
    expect(await fail('a@example.com', by('203.0.113.1'))).toBe(401)
    // what stands before the last address was told by the caller himself
    expect(await fail('b@example.com', by('198.51.100.9, 203.0.113.1'))).toBe(401)
    expect(await fail('c@example.com', by('203.0.113.1'))).toBe(429)
    expect(await fail('c@example.com', by('203.0.113.2'))).toBe(401)
    const stranger = { socket: '192.0.2.1', forwarded: '203.0.113.1' }
    expect(await fail('d@example.com', stranger)).toBe(401)
  })
})
