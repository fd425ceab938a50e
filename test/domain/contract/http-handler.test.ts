// What an HTTP job may say of its call: what is taken, and what is refused with which words at which field.
import { httpHandlerSchema, isSecretHeader, statusRange } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { clientCertificate, clientKey } from '../../support/client-certificate.ts'

const url = 'https://example.com/hook'
const key = { secret: 'key' }
const oauth2 = {
  tokenUrl: 'https://id.example.com/token',
  clientId: 'me',
  clientSecret: { secret: 'client' },
}

function faultsOf(more: object): string[] {
  const parsed = httpHandlerSchema.safeParse({ kind: 'http', url, ...more })
  return parsed.success ? [] : parsed.error.issues.map(({ path, message }) => `/${path.join('/')} ${message}`)
}

describe('taken', () => {
  it.each([
    [{ success: { statuses: [200, '3xx', '404-410'] } }],
    [{ success: { json: { pointer: '/status', equals: 'ok' } } }],
    [{ success: { json: { pointer: '', in: [1, true, null, 'x'] } } }],
    [{ success: { statuses: ['2xx'], json: { pointer: '/a~1b', equals: null } } }],
    [{ capture: { bodyBytes: 0, headers: ['X-Request-Id'] } }],
    [{ signing: { keys: [{ secret: 'one' }, { secret: 'two' }] } }],
    [{ tls: { certificate: clientCertificate, privateKey: key } }],
    [{ tls: { authority: clientCertificate + clientCertificate } }],
    [{ oauth2 }],
    [{ oauth2: { ...oauth2, scopes: ['a:read', 'b'], audience: 'https://x.test', authentication: 'body' } }],
  ])('%j', (more) => expect(faultsOf(more)).toEqual([]))

  it('and nothing is added to what a job of before says', () => {
    expect(httpHandlerSchema.parse({ kind: 'http', url })).toEqual({
      kind: 'http',
      url,
      method: 'POST',
      headers: {},
    })
  })
})

describe('refused', () => {
  it.each([
    [{ success: {} }, '/success', 'says nothing'],
    [{ success: { statuses: [] } }, '/success/statuses', ''],
    [{ success: { statuses: [199] } }, '/success/statuses/0', 'is not a status from 200 to 599'],
    [{ success: { statuses: ['1xx'] } }, '/success/statuses/0', 'is not a status'],
    [{ success: { statuses: ['300-200'] } }, '/success/statuses/0', 'is not a status'],
    [
      { success: { json: { pointer: 'status', equals: 1 } } },
      '/success/json/pointer',
      'is not a JSON pointer',
    ],
    [{ success: { json: { pointer: '/a~2', equals: 1 } } }, '/success/json/pointer', 'is not a JSON pointer'],
    [{ success: { json: { pointer: '/a' } } }, '/success/json', 'needs "equals"'],
    [{ success: { json: { pointer: '/a', equals: 1, in: [1] } } }, '/success/json', 'not both'],
    [
      { success: { json: { pointer: '/a', equals: { b: 1 } } } },
      '/success/json/equals',
      'is not text, a number',
    ],
    [{ success: { json: { pointer: '/a', matches: '.*' } } }, '/success/json', ''],
    [{ method: 'HEAD', success: { json: { pointer: '', equals: 1 } } }, '/success/json', 'HEAD'],
    [{ capture: { bodyBytes: 16_385 } }, '/capture/bodyBytes', ''],
    [{ capture: { headers: ['Set-Cookie'] } }, '/capture/headers/0', 'may hold a secret'],
    [{ capture: { headers: ['a b'] } }, '/capture/headers/0', 'is not a valid HTTP header name'],
    [{ signing: { keys: [] } }, '/signing/keys', ''],
    [{ signing: { keys: ['whsec_abc'] } }, '/signing/keys/0', ''],
    [{ signing: { keys: [{ secret: 'whsec_/+=' }] } }, '/signing/keys/0/secret', 'use letters, digits'],
    [{ tls: {} }, '/tls', 'says nothing'],
    [{ tls: { certificate: clientCertificate } }, '/tls', '"certificate" and "privateKey" together'],
    [{ tls: { privateKey: key } }, '/tls', '"certificate" and "privateKey" together'],
    [{ tls: { certificate: 'no', privateKey: key } }, '/tls/certificate', 'is not a certificate in PEM'],
    [
      { tls: { certificate: clientCertificate + clientKey, privateKey: key } },
      '/tls/certificate',
      'private key',
    ],
    [{ tls: { certificate: clientCertificate, privateKey: clientKey } }, '/tls/privateKey', ''],
    [{ url: 'http://example.com/', tls: { authority: clientCertificate } }, '/tls', 'is for https alone'],
    [{ oauth2: { ...oauth2, tokenUrl: 'ftp://x.test/' } }, '/oauth2/tokenUrl', 'has the scheme "ftp"'],
    [
      { oauth2: { ...oauth2, tokenUrl: 'https://me:pw@x.test/' } },
      '/oauth2/tokenUrl',
      'must not hold credentials',
    ],
    [{ oauth2: { ...oauth2, clientSecret: 'pw' } }, '/oauth2/clientSecret', ''],
    [{ oauth2: { ...oauth2, scopes: ['a b'] } }, '/oauth2/scopes/0', 'is not a scope'],
    [{ oauth2, headers: { AUTHORIZATION: 'x' } }, '/oauth2', 'sets the header "Authorization"'],
    [{ webhook: {} }, '/', ''],
  ])('%j', (more, pointer, words) => {
    const faults = faultsOf(more)
    expect(faults.some((fault) => fault.startsWith(`${pointer} `) && fault.includes(words))).toBe(true)
  })
})

it('statuses, hundreds and ranges are ranges', () => {
  expect([204, '4xx', '200-204'].map(statusRange)).toEqual([
    [204, 204],
    [400, 499],
    [200, 204],
  ])
})

it('names of headers that carry secrets', () => {
  expect(['Authorization', 'X-Api-Key', 'set-cookie', 'X-Auth'].every(isSecretHeader)).toBe(true)
  expect(['Content-Type', 'X-Author', 'Monkey'].some(isSecretHeader)).toBe(false)
})
