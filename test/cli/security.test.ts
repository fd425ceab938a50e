// `belfry security check-target`: one line a case in the form that others read, one URL for people, and what
// it says to those who call it wrongly. No server is asked.
import { describe, expect, it } from 'vitest'
import { runAlone } from './support/cli.ts'

const check = (argv: readonly string[], options: { stdin?: string; env?: Record<string, string> } = {}) =>
  runAlone(['security', 'check-target', ...argv], { ...options, loadServer: () => import('@belfry/server') })
const batch = (cases: unknown, env: Record<string, string> = {}) =>
  check(['--batch', '-'], { stdin: JSON.stringify(cases), env })

describe('a file of cases', () => {
  it('gives one JSON line a case, in order: the id with outcome and code, or with a reason', async () => {
    const cases = [
      { id: 'a', area: 'ssrf', input: { url: 'http://127.1/' } },
      { id: 'b', area: 'ssrf', input: { url: 'https://example.com/hook' } },
      { id: 'c', area: 'header', input: { name: 'Host', value: 'x' } },
      { id: 'd', area: 'container', input: { job_spec_fragment: { Privileged: true } } },
      { id: 'e', area: 'limit', input: { cron: '0 0 31 2 *' } },
      { id: 'f', area: 'dns', input: { host: 'a.test', answers: [['8.8.8.8', '10.0.0.1']] } },
      { id: 'g', area: 'ui', input: { job_name_or_log_line: '<b>' } },
      { area: 'ssrf', input: { url: 'http://10.0.0.1/' } },
      { id: 'i' },
      7,
    ]
    const { code, out, err } = await batch({ cases })
    expect([code, err]).toEqual([0, ''])
    const lines = out.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { id: 'a', outcome: 'refuse_url', code: 'invalid_target' },
      { id: 'b', outcome: 'allow' },
      { id: 'c', outcome: 'refuse_400', code: 'invalid_request' },
      { id: 'd', outcome: 'refuse_400', code: 'invalid_request' },
      { id: 'e', outcome: 'refuse_400', code: 'invalid_schedule' },
      { id: 'f', outcome: 'refuse_connect', code: 'target_denied' },
      { id: 'g', notApplicable: 'needs a browser: the tests of the pages show it' },
      { id: null, outcome: 'refuse_url', code: 'invalid_target' },
      { id: 'i', notApplicable: 'the case has no area' },
      { id: null, notApplicable: 'a case is an object' },
    ])
  })

  it('goes by the settings of a server here', async () => {
    const cases = [
      { id: 'a', area: 'ssrf', input: { url: 'http://10.0.0.1:9000/' } },
      { id: 'b', area: 'limit', input: { cron: '*/10 * * * * *' } },
    ]
    const env = { BELFRY_EGRESS_ALLOW: '10.0.0.0/8', BELFRY_QUOTAS: 'scheduleIntervalMs=5000' }
    const { out } = await batch(cases, env)
    expect(out).toBe('{"id":"a","outcome":"allow"}\n{"id":"b","outcome":"allow"}\n')
  })

  it('gives a line to each, also to what makes no sense', async () => {
    const cases = [
      { id: 'a', area: 'limit', input: { payloadBytes: -1 } },
      { id: 'b', area: 'limit', input: { depth: -5 } },
      { id: 'c', area: 'lambda', input: { payloadBytes: -1 } },
      { id: 'd', area: 'signature', input: { attempts: -2 } },
      { id: 'e', area: 'header', input: { name: 5, value: {} } },
      { id: 'f', area: 'header', input: { headers: 5 } },
      { id: 'g', area: 'header', input: { name: 'X-A', value: {} } },
      { id: 'h', area: 'header', input: { name: 'X_Forwarded_For', value: '1.2.3.4' } },
      { id: 'i', area: 'container', input: { egress: 'host' } },
      { id: 'j', area: 'container', input: { egress: 'partners' } },
    ]
    const { out } = await batch(cases, { BELFRY_CONTAINER_EGRESS_LISTS: 'partners=api.example.com' })
    const lines = out.trimEnd().split('\n')
    const judged = lines.map((line) => JSON.parse(line) as { id: string; outcome: string })
    expect(judged.map(({ id, outcome }) => `${id} ${outcome}`)).toEqual([
      ...['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'].map((id) => `${id} refuse_400`),
      'j allow',
    ])
  })

  it.each([
    ['not JSON', '{', '--batch is not valid JSON'],
    ['no list', '{}', '--batch has no list "cases"'],
  ])('that is %s is refused', async (_words, stdin, message) => {
    const { code, err } = await check(['--batch', '-'], { stdin })
    expect(code).toBe(2)
    expect(err).toContain(message)
  })
})

describe('one URL', () => {
  it('is told with the reason; a refusal is an exit code of 1', async () => {
    const refused = await check(['http://169.254.169.254/latest/'])
    expect(refused.code).toBe(1)
    expect(refused.out).toMatch(/^refuse_url {2}The URL leads to 169\.254\.169\.254: the instance metadata/)
    const allowed = await check(['https://example.com/', '-o', 'json'])
    expect(allowed.code).toBe(0)
    expect(JSON.parse(allowed.out)).toEqual({ url: 'https://example.com/', outcome: 'allow' })
  })

  it('or a file has to be given, and not both', async () => {
    expect((await check([])).code).toBe(2)
    expect((await check(['https://example.com/', '--batch', '-'], { stdin: '[]' })).code).toBe(2)
  })
})
