// What must not get in: each case is refused with a 4xx problem that has a code, a pointer and a fix, and
// nothing is stored.
import { maxBodyBytes } from '@belfry/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type CallOptions, httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let before: Record<string, number>
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('known') })
})
beforeEach(async () => {
  before = await t.counts()
})
afterAll(() => t.close())

type Refusal = { status?: number; code: string; pointer?: string; says?: string | RegExp }

async function refusal(method: string, path: string, options: CallOptions, expected: Refusal): Promise<void> {
  const { status, body, headers } = await t.call(method, path, options)
  expect(body).toMatchObject({ status: expected.status ?? 400, code: expected.code, retryable: false })
  expect(status).toBe(expected.status ?? 400)
  expect(headers['content-type']).toContain('application/problem+json')
  const pointers = body.errors.map(({ pointer }) => pointer)
  expect(pointers).toEqual(expect.arrayContaining(expected.pointer === undefined ? [] : [expected.pointer]))
  expect(JSON.stringify(body)).toMatch(expected.says ?? '')
  expect(await t.counts()).toEqual(before)
}

const job = (more: object) => ({ body: { ...httpJob('bad'), ...more } })
const handler = (more: object) => job({ handler: { kind: 'http', url: 'https://example.com', ...more } })
const schedule = (more: object) => ({ body: { name: 'bad', job: 'known', ...more } })

describe('bodies', () => {
  const bodies: [string, CallOptions, Refusal][] = [
    [
      'malformed JSON',
      { raw: '{"name": "x",\n "a" 1}' },
      { code: 'malformed_json', says: /line 2, column 6/ },
    ],
    ['a text that ends', { raw: '{"name": "x"' }, { code: 'malformed_json', says: /the text ends/ }],
    ['something behind it', { raw: '{} {}' }, { code: 'malformed_json' }],
    ['single quotes', { raw: "{'name': 1}" }, { code: 'malformed_json', says: /double quotes/ }],
    ['a list', { raw: '[]' }, { code: 'invalid_request', says: /JSON object/ }],
    ['null', { raw: 'null' }, { code: 'invalid_request' }],
    ['nothing', {}, { code: 'invalid_request', pointer: '/name', says: /required/ }],
    ['a body of nothing', { raw: '' }, { code: 'invalid_request', pointer: '/name' }],
    [
      'an unknown field',
      job({ handlr: 1 }),
      { code: 'invalid_request', pointer: '/handlr', says: /did you mean .*handler/ },
    ],
    [
      'an unknown field below',
      handler({ metod: 'GET' }),
      { code: 'invalid_request', pointer: '/handler/metod', says: /method/ },
    ],
    [
      'a key given twice',
      { raw: '{"name":"a","name":"b"}' },
      { code: 'invalid_request', pointer: '/name', says: /twice/ },
    ],
    [
      '__proto__',
      { raw: '{"__proto__":{"admin":true},"name":"x"}' },
      { code: 'invalid_request', pointer: '/__proto__' },
    ],
    [
      '__proto__ below',
      { raw: '{"job":"known","input":{"a":[{"__proto__":1}]}}' },
      { code: 'invalid_request', pointer: '/input/a/0/__proto__' },
    ],
    [
      'constructor',
      { raw: '{"constructor":{"prototype":{}}}' },
      { code: 'invalid_request', pointer: '/constructor' },
    ],
    [
      'a rounded number',
      { raw: '{"priority": 9007199254740993}' },
      { code: 'invalid_request', pointer: '/priority', says: /within the limits of the field/ },
    ],
    [
      'an infinite number',
      { raw: '{"priority": 1e999}' },
      { code: 'invalid_request', pointer: '/priority', says: /within the limits of the field/ },
    ],
    [
      'a rounded number in an input',
      { raw: '{"job":"known","input":{"id":9007199254740993}}' },
      { code: 'invalid_request', pointer: '/input/id', says: /send it as a string/ },
    ],
    [
      'half a surrogate pair',
      { raw: '{"description":"\\ud800"}' },
      { code: 'invalid_request', pointer: '/description' },
    ],
    [
      'deep nesting',
      { raw: `{"input":${'['.repeat(100_000)}${']'.repeat(100_000)}}` },
      { code: 'invalid_request', says: /64 levels/ },
    ],
    [
      'invalid UTF-8',
      { raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) },
      { code: 'malformed_json', says: /UTF-8/ },
    ],
    [
      'UTF-16',
      { raw: '{}', headers: { 'content-type': 'application/json; charset=utf-16' } },
      { status: 415, code: 'unsupported_media_type' },
    ],
    [
      'a form',
      { raw: 'a=1', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      { status: 415, code: 'unsupported_media_type', says: /application.json/ },
    ],
    [
      'no type',
      { raw: '{}', headers: { 'content-type': '' } },
      { status: 415, code: 'unsupported_media_type' },
    ],
    [
      '2 MB',
      { raw: `{"description":"${'x'.repeat(2 * maxBodyBytes)}"}` },
      { status: 413, code: 'body_too_large', pointer: '', says: /1048576 bytes; send less/ },
    ],
    [
      'NUL in a text',
      job({ description: 'a\u0000b' }),
      { code: 'invalid_request', pointer: '/description', says: /NUL/ },
    ],
    [
      'a wrong type',
      job({ priority: '5' }),
      { code: 'invalid_request', pointer: '/priority', says: /a number, not a string/ },
    ],
    ['a fraction', job({ priority: 1.5 }), { code: 'invalid_request', pointer: '/priority' }],
    [
      'beyond the limit',
      job({ priority: 101 }),
      { code: 'invalid_request', pointer: '/priority', says: /at most 100/ },
    ],
    [
      'an unknown word',
      job({ delivery: 'atleastonce' }),
      { code: 'invalid_request', pointer: '/delivery', says: /did you mean \\"at_least_once/ },
    ],
    [
      'a bad name',
      job({ name: 'a b/c' }),
      { code: 'invalid_request', pointer: '/name', says: /letters, digits/ },
    ],
    [
      'a long name',
      job({ name: 'a'.repeat(129) }),
      { code: 'invalid_request', pointer: '/name', says: /at most 128 characters/ },
    ],
  ]
  it.each(bodies)('%s is refused', (_what, options, expected) =>
    expect(refusal('POST', '/v1/jobs', options, expected)).resolves.toBeUndefined(),
  )

  it('nothing is taken where nothing is expected', async () => {
    const { body } = await t.call('GET', '/v1/jobs?limit=1')
    const path = `/v1/jobs/${body.items[0]?.id}`
    await expect(
      refusal('DELETE', path, { body: { force: true } }, { code: 'invalid_request' }),
    ).resolves.toBeUndefined()
  })

  it('inputs of runs: NUL in text and keys, too large, too deep', async () => {
    const run = (input: unknown) => ({ body: { job: 'known', input } })
    await expect(
      refusal('POST', '/v1/runs', run({ a: ['x\u0000'] }), {
        code: 'invalid_request',
        pointer: '/input/a/0',
        says: /NUL/,
      }),
    ).resolves.toBeUndefined()
    await expect(
      refusal('POST', '/v1/runs', run({ 'x\u0000': 1 }), {
        code: 'invalid_request',
        pointer: '/input',
        says: /NUL/,
      }),
    ).resolves.toBeUndefined()
    await expect(
      refusal('POST', '/v1/runs', run('x'.repeat(300_000)), {
        code: 'invalid_request',
        pointer: '/input',
        says: /262144 bytes/,
      }),
    ).resolves.toBeUndefined()
    // six characters that only look like an escaped NUL are text like any other
    const fine = await t.call('POST', '/v1/runs', run('\\u0000'))
    expect(fine.body).toMatchObject({ state: 'pending', input: '\\u0000' })
  })

  it('large but allowed strings are read', async () => {
    const input = 'é"\\\n'.repeat(30_000)
    const { status, body } = await t.call('POST', '/v1/runs', { body: { job: 'known', input } })
    expect([status, body.input]).toEqual([201, input])
  })
})

describe('targets', () => {
  const targets: [string, object, Refusal][] = [
    [
      'credentials in the URL',
      { url: 'https://user:pw@example.com' },
      { code: 'invalid_request', pointer: '/handler/url', says: /Authorization/ },
    ],
    [
      'a file',
      { url: 'file:///etc/passwd' },
      { code: 'invalid_request', pointer: '/handler/url', says: /only http and https/ },
    ],
    ['a script', { url: 'javascript:alert(1)' }, { code: 'invalid_request', pointer: '/handler/url' }],
    [
      'no URL',
      { url: 'example.com/x' },
      { code: 'invalid_request', pointer: '/handler/url', says: /https:\/\// },
    ],
    [
      'no scheme before a port',
      { url: 'localhost:18080' },
      { code: 'invalid_request', pointer: '/handler/url', says: /put http:.* http:\/\/localhost:18080/ },
    ],
    [
      'a header twice',
      { headers: { 'X-A': '1', 'x-a': '2' } },
      { code: 'invalid_request', pointer: '/handler/headers/x-a', says: /same header as .*X-A/ },
    ],
    ['a NUL', { url: 'https://example.com/\u0000' }, { code: 'invalid_request', pointer: '/handler/url' }],
    [
      'the metadata address',
      { url: 'http://169.254.169.254/latest' },
      { code: 'invalid_target', pointer: '/handler/url' },
    ],
    [
      'a header that Belfry sets',
      { headers: { 'Idempotency-Key': 'x' } },
      { code: 'invalid_request', pointer: '/handler/headers/Idempotency-Key' },
    ],
    [
      'a line break in a header',
      { headers: { 'X-A': 'a\r\nHost: b' } },
      { code: 'invalid_request', pointer: '/handler/headers/X-A' },
    ],
    ['a body with GET', { method: 'GET', body: 'x' }, { code: 'invalid_request', pointer: '/handler/body' }],
    ['another kind', { kind: 'ftp' }, { code: 'invalid_request', pointer: '/handler/kind' }],
  ]
  it.each(targets)('%s is refused for a job', (_what, more, expected) =>
    expect(refusal('POST', '/v1/jobs', handler(more), expected)).resolves.toBeUndefined(),
  )
  it.each(targets)('%s is refused inline', (_what, more, expected) => {
    const inline = { kind: 'http', url: 'https://example.com', ...more }
    return expect(
      refusal('POST', '/v1/schedules', { body: { name: 'bad', every: '1h', handler: inline } }, expected),
    ).resolves.toBeUndefined()
  })
})

describe('schedules', () => {
  const past = new Date(Date.now() - 3_600_000).toISOString()
  const timings: [string, object, Refusal][] = [
    ['no timing', {}, { code: 'invalid_request', says: /one of/ }],
    [
      'two timings',
      { every: '1h', cron: '* * * * *' },
      { code: 'invalid_request', pointer: '/cron', says: /only one/ },
    ],
    [
      'a bad minute',
      { cron: '61 * * * *' },
      { code: 'invalid_schedule', pointer: '/cron/minute', says: /0-59/ },
    ],
    ['seven fields', { cron: '* * * * * * *' }, { code: 'invalid_schedule', pointer: '/cron' }],
    [
      'a day that never comes',
      { cron: '0 0 30 2 *' },
      { code: 'invalid_schedule', pointer: '/cron/dayOfMonth', says: /never fires/ },
    ],
    [
      'a zone that is none',
      { every: '1h', zone: 'Europe/Berlim' },
      { code: 'invalid_schedule', pointer: '/zone', says: /Europe\/Berlin/ },
    ],
    ['a rate that is none', { every: 'often' }, { code: 'invalid_schedule', pointer: '/every', says: /90s/ }],
    ['a rate of nothing', { every: '0s' }, { code: 'invalid_schedule', pointer: '/every' }],
    ['a time that is none', { at: '2026-13-01T00:00:00Z' }, { code: 'invalid_schedule', pointer: '/at' }],
    ['a time in the past', { at: past }, { code: 'invalid_schedule', pointer: '/at', says: /runNow/ }],
    [
      'an end before the start',
      { every: '1h', startAt: '2030-01-02T00:00:00Z', endAt: '2030-01-01T00:00:00Z' },
      { code: 'invalid_schedule', pointer: '/endAt' },
    ],
    [
      'an end in the past',
      { every: '1h', endAt: past },
      { code: 'invalid_schedule', pointer: '/endAt', says: /never fires/ },
    ],
    [
      'a start without offset',
      { every: '1h', startAt: '2030-01-02T00:00:00' },
      { code: 'invalid_request', pointer: '/startAt', says: /2026-12-01T02:30:00Z/ },
    ],
    [
      'a job that is none',
      { every: '1h', job: 'knwon' },
      { status: 404, code: 'not_found', pointer: '/job', says: /known/ },
    ],
    [
      'job and handler',
      { every: '1h', handler: { kind: 'http', url: 'https://example.com' } },
      { code: 'invalid_request', pointer: '/handler', says: /give one of/ },
    ],
    [
      'retry beside a job',
      { every: '1h', retry: { maxAttempts: 1 } },
      { code: 'invalid_request', pointer: '/retry', says: /belongs to the job/ },
    ],
  ]
  it.each(timings)('%s is refused', (_what, more, expected) =>
    expect(refusal('POST', '/v1/schedules', schedule(more), expected)).resolves.toBeUndefined(),
  )
})

describe('queries, paths and headers', () => {
  const requests: [string, string, CallOptions, Refusal][] = [
    ['GET', '/v1/jobs?limit=0', {}, { code: 'invalid_request', pointer: '/query/limit', says: /at least 1/ }],
    [
      'GET',
      '/v1/jobs?limit=1001',
      {},
      { code: 'invalid_request', pointer: '/query/limit', says: /at most 1000/ },
    ],
    [
      'GET',
      '/v1/jobs?limt=1',
      {},
      { code: 'invalid_request', pointer: '/query/limt', says: /did you mean .*limit/ },
    ],
    [
      'GET',
      '/v1/jobs?limit=1.5',
      {},
      { code: 'invalid_request', pointer: '/query/limit', says: /a whole number, not \\"1\.5\\"/ },
    ],
    ['GET', '/v1/jobs?limit=1&limit=2', {}, { code: 'invalid_request', pointer: '/query/limit' }],
    ['GET', '/v1/jobs?__proto__=1', {}, { code: 'invalid_request', pointer: '/query/__proto__' }],
    ['GET', '/v1/jobs?name=%00', {}, { code: 'invalid_request', pointer: '/query/name' }],
    ['GET', '/v1/jobs?cursor=xyz', {}, { code: 'invalid_cursor', pointer: '/query/cursor' }],
    [
      'GET',
      '/v1/runs?state=done',
      {},
      { code: 'invalid_request', pointer: '/query/state/0', says: /succeeded/ },
    ],
    [
      'GET',
      '/v1/runs?createdAfter=yesterday',
      {},
      { code: 'invalid_request', pointer: '/query/createdAfter' },
    ],
    [
      'GET',
      '/v1/jobs/nonsense',
      {},
      { code: 'invalid_request', pointer: '/params/id', says: /is not an id/ },
    ],
    ['GET', '/v1/jobs/%00', {}, { code: 'invalid_request', pointer: '/params/id' }],
    ['GET', '/v1/jobs/%ff', {}, { code: 'invalid_request' }],
    [
      'POST',
      '/v1/jobs?dryRun=maybe',
      { body: httpJob('x') },
      { code: 'invalid_request', pointer: '/query/dryRun' },
    ],
    [
      'POST',
      '/v1/jobs',
      { body: httpJob('x'), headers: { 'idempotency-key': '' } },
      { code: 'invalid_request', pointer: '/headers/idempotency-key' },
    ],
    [
      'POST',
      '/v1/jobs',
      { body: httpJob('x'), headers: { 'idempotency-key': 'a b' } },
      { code: 'invalid_request', pointer: '/headers/idempotency-key' },
    ],
  ]
  it.each(requests)('%s %s is refused', (method, path, options, expected) =>
    expect(refusal(method, path, options, expected)).resolves.toBeUndefined(),
  )
})
