// Failures: exit codes, words with code, flag, fix and request id on stderr, the problem document on stdout
// for programs; and never a secret in either.
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { runAlone, startCliRig } from './support/cli.ts'
import { problem, requestId, testKey } from './support/contract-server.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
afterEach(() => {
  rig.server.intercept = () => undefined
  rig.server.seen.length = 0
})

describe('a refused request', () => {
  const refused = problem('invalid_schedule', 'The schedule is not valid; see the errors.', [
    { pointer: '/cron', message: 'minute 61 is not from 0 to 59; write 1' },
    { pointer: '/handler/headers/A', message: 'bad \u001b[31m' },
  ])
  const argv = ['schedule', 'create', 'n', '--cron', '61 * * * *', '--http', 'https://a.example']

  it('is told with code, flag, pointer, fix and request id', async () => {
    rig.server.intercept = () => ({ status: 400, body: refused })
    const result = await rig.run(argv)
    expect(result).toEqual({
      code: 1,
      out: '',
      err: [
        'error: The schedule is not valid; see the errors. (invalid_schedule)',
        '  --cron (/cron): minute 61 is not from 0 to 59; write 1',
        '  --header (/handler/headers/A): bad \\e[31m',
        `  Request ${requestId}`,
        '',
      ].join('\n'),
    })
  })

  it('is the problem document for programs', async () => {
    rig.server.intercept = () => ({ status: 400, body: refused })
    expect(JSON.parse((await rig.run([...argv, '-o', 'json'])).out)).toEqual(refused)
    expect(JSON.parse((await rig.run([...argv, '-o', 'jsonl'])).out)).toEqual(refused)
    expect((await rig.run([...argv, '-o', 'yaml'])).out).toContain('code: invalid_schedule')
    expect((await rig.run([...argv, '-o', 'name'])).out).toBe('')
  })
})

describe('exit codes', () => {
  it.each([
    ['unauthenticated', 401, 4],
    ['forbidden', 403, 4],
    ['not_found', 404, 1],
    ['internal', 500, 1],
  ] as const)('%s is %i, exit code %i', async (code, status, exit) => {
    rig.server.intercept = () => ({
      status,
      body: { ...problem(code, 'Words; and a fix.'), retryable: false },
    })
    expect((await rig.run(['job', 'list'])).code).toBe(exit)
  })

  it('is 4 without a key, and says where keys come from', async () => {
    const result = await rig.run(['job', 'list'], { env: { BELFRY_API_KEY: undefined } })
    expect(result.code).toBe(4)
    expect(result.err).toContain('belfry dev')
  })

  it('is 2 for a usage error, in the format asked for', async () => {
    const result = await rig.run(['jobs', 'list', '--output', 'json'])
    expect(result.code).toBe(2)
    expect(JSON.parse(result.out)).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringContaining('did you mean job') as string,
    })
  })

  it('is 1 when no server answers', async () => {
    const fetchNothing = () =>
      Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }))
    const result = await rig.run(['job', 'create', 'x', '--http', 'https://a', '--dry-run'], {
      fetch: fetchNothing,
    })
    expect(result.code).toBe(1)
    expect(result.err).toMatch(/cannot be reached \(ECONNREFUSED\).*\(server_unreachable\)/)
    expect(result.err).toContain('Start a server with `belfry dev`')
  })
})

describe('help and version', () => {
  it('go to stdout when asked for, and to stderr with exit code 2 when a verb is missing', async () => {
    for (const argv of [[], ['--help'], ['help'], ['help', 'run', 'list'], ['run', 'list', '--help']]) {
      const result = await runAlone(argv)
      expect(result).toMatchObject({ code: 0, err: '' })
      expect(result.out).toContain('Examples:')
    }
    const missing = await runAlone(['run'])
    expect(missing).toMatchObject({ code: 2, out: '' })
    expect(missing.err).toContain('Verbs:')
  })

  it('tells the version', async () => {
    expect((await runAlone(['--version'])).out).toMatch(/^belfry \d+\.\d+\.\d+/)
  })
})

describe('colour', () => {
  const colored = async (options: Parameters<typeof rig.run>[1], ...flags: string[]) => {
    rig.server.store.addSchedule('n')
    return (await rig.run(['schedule', 'list', ...flags], options)).out.includes('\u001b[')
  }

  it('is for terminals that want it', async () => {
    expect(await colored({ tty: true })).toBe(true)
    expect(await colored({})).toBe(false)
    expect(await colored({ tty: true, env: { NO_COLOR: '1' } })).toBe(false)
    expect(await colored({ tty: true, env: { TERM: 'dumb' } })).toBe(false)
    expect(await colored({ tty: true }, '--no-color')).toBe(false)
    expect(await colored({ tty: true }, '-o', 'json')).toBe(false)
    expect(await colored({ env: { FORCE_COLOR: '1' } })).toBe(true)
  })
})

describe('the key', () => {
  it('stands in no output, whatever happens', async () => {
    const echo = { ...problem('forbidden', 'No.'), retryable: false }
    const lines = [
      ['job', 'list'],
      ['context', 'show'],
      ['context', 'show', '-o', 'json'],
      ['job', 'list', '--url', 'http://127.0.0.1:1'],
      ['job', 'list', '--request-timeout', '0'],
      ['job', 'list', '--nonsense'],
    ]
    for (const argv of lines) {
      for (const fail of [false, true]) {
        rig.server.intercept = () => (fail ? { status: 403, body: echo } : undefined)
        const result = await rig.run(argv)
        expect(result.out + result.err).not.toContain(testKey)
      }
    }
  })

  it('is not repeated when it cannot be one', async () => {
    const odd = 'two words\u0007 in-a-key'
    const result = await rig.run(['job', 'list'], { env: { BELFRY_API_KEY: odd } })
    expect(result.code).toBe(2)
    expect(result.err).toContain('BELFRY_API_KEY does not hold an API key')
    expect(result.err).not.toContain('two words')
  })
})
