// `belfry quota` against the real API: what a tenant sees, what the operator sets, and what it says.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let env: Record<string, string>
beforeAll(async () => {
  t = await startTestApi({}, ['schedules=50'])
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-cli-')),
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await t.close()
})

const belfry = (argv: readonly string[], key?: string) =>
  runAlone(argv, { env: { ...env, ...(key === undefined ? {} : { BELFRY_API_KEY: key }) } })

it('shows what the tenant may have and uses', async () => {
  await t.call('POST', '/v1/jobs', { body: httpJob('one') })
  const { code, out } = await belfry(['quota', 'list'])
  expect(code).toBe(0)
  expect(out).toMatch(/^QUOTA +LIMIT +USED +UNIT +SET +MEANING/)
  expect(out).toMatch(/^jobs +100,000 +1 +jobs +default/m)
  expect(out).toMatch(/^schedules +50 +0 +schedules +default/m)
  const one = await belfry(['quota', 'get', 'schedules', '-o', 'json'])
  expect(JSON.parse(one.out)).toMatchObject({ quota: 'schedules', limit: 50, source: 'default' })
})

it('is set by the operator, and held', async () => {
  const platform = await t.keyFor('operator', ['platform'])
  const dry = await belfry(['quota', 'set', 'acme', 'jobs=1', '--dry-run'], platform)
  expect(dry.code).toBe(0)
  const set = await belfry(['quota', 'set', 'acme', 'jobs=1', 'schedules=none', '-o', 'json'], platform)
  expect(JSON.parse(set.out)).toMatchObject({
    items: [
      { quota: 'jobs', limit: 1, source: 'tenant' },
      { quota: 'schedules', limit: null, source: 'tenant' },
    ],
  })
  const refused = await belfry(['job', 'create', 'two', '--http', 'https://example.com/'])
  expect(refused.code).toBe(1)
  expect(refused.err).toContain('The quota "jobs" of this tenant is used up: 1 of 1 jobs.')
  const theirs = await belfry(['quota', 'list', '--tenant', 'acme', '-o', 'json'], platform)
  expect(JSON.parse(theirs.out)).toMatchObject({ tenant: 'acme' })
})

it.each([
  [['quota', 'get', 'schedule'], 'did you mean schedules?'],
  [['quota', 'set', 'acme', 'cows=1'], 'there is no quota "cows"'],
  [['quota', 'set', 'acme', 'jobs'], 'write jobs=100, jobs=none or jobs=default'],
])('%j is told what is wrong', async (argv, words) => {
  const { code, err } = await belfry(argv)
  expect(code).toBe(2)
  expect(err).toContain(words)
})
