// The parts of an HTTP job as `belfry job get` shows them.
import { httpHandlerSchema } from '@belfry/contract'
import { expect, test } from 'vitest'
import { httpFields } from '../../packages/cli/src/output/http-fields.ts'
import { clientCertificate } from '../support/client-certificate.ts'

const fieldsOf = (more: object) =>
  httpFields(httpHandlerSchema.parse({ kind: 'http', url: 'https://x.test/', ...more }))

test('what a job says is shown, and nothing that it does not', () => {
  const oauth2 = { tokenUrl: 'https://id.test/token', clientId: 'me', clientSecret: { secret: 'client' } }
  expect(fieldsOf({})).toEqual([['Body', 'the input of the run, as JSON']])
  expect(
    fieldsOf({
      headers: { 'X-A': '{{secrets.partner}}' },
      body: 'x',
      success: { statuses: ['2xx', 409], json: { pointer: '/a', in: ['ok', null] } },
      capture: { bodyBytes: 100, headers: ['X-Id'] },
      signing: { keys: [{ secret: 'old' }, { secret: 'new' }] },
      tls: { certificate: clientCertificate, privateKey: { secret: 'key' }, authority: clientCertificate },
      oauth2,
      async: { deadlineMs: 60_000 },
    }),
  ).toEqual([
    ['Header', 'X-A: {{secrets.partner}}'],
    ['Body', 'x'],
    ['Signed by', 'old, new'],
    ['Token of', 'https://id.test/token, for me'],
    ['TLS', 'a client certificate, key key, an authority of its own'],
    ['Success', 'status 2xx, 409, and /a is "ok" or null'],
    ['Keeps', '100 bytes of the body, X-Id'],
    ['May answer', '202, and report within 1m'],
  ])
})

test('parts may stand alone', () => {
  expect(fieldsOf({ success: { json: { pointer: '', equals: true } } })).toContainEqual([
    'Success',
    'status 2xx, and the response is true',
  ])
  expect(fieldsOf({ capture: { bodyBytes: 0 } })).toContainEqual(['Keeps', 'nothing of the body'])
  expect(fieldsOf({ capture: { headers: ['X-Id'] } })).toContainEqual(['Keeps', 'the body, X-Id'])
})
