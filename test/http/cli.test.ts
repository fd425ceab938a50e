// The command line against the real API: what test/cli shows with a server that only speaks the contract,
// here with what the server answers. A worker is played by SQL.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { playWorker, type PlayedWorker } from '../support/played-worker.ts'

let t: TestApi
let worker: PlayedWorker
let env: Record<string, string>
beforeAll(async () => {
  t = await startTestApi()
  worker = playWorker(t.database)
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

const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })
async function json(...argv: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await belfry(...argv, '-o', 'json')
  expect([code, err.includes('error')]).toEqual([0, false])
  return JSON.parse(out) as Record<string, unknown>
}

describe('jobs', () => {
  it('are made, shown, listed, changed and deleted', async () => {
    const target = ['--http', 'PUT https://example.com/hook', '--header', 'Authorization: Bearer secret']
    const made = await json('job', 'create', 'report', ...target, '--body', 'text', '--max-attempts', '4')
    expect(made).toMatchObject({ name: 'report', version: 1, retry: { maxAttempts: 4 } })
    const shown = await belfry('job', 'get', 'report')
    expect(shown.out).toMatch(/Header +Authorization: \*\*\*/)
    expect(shown.out).toMatch(/Body +text/)
    expect((await belfry('job', 'list')).out).toMatch(/report +PUT https:\/\/example.com\/hook +default/)
    // the masked header goes back with the change and stays what it is
    expect(await json('job', 'update', 'report', '--http', 'https://example.com/v2')).toMatchObject({
      version: 2,
    })
    const [row] = await t.database.sql<{ header: string }>(
      `SELECT definition #>> '{handler,headers,Authorization}' AS header
       FROM belfry.job WHERE name = 'report'`,
    )
    expect(row?.header).toBe('Bearer secret')
    const moved = await belfry('job', 'update', 'report', '--http', 'https://example.org/')
    expect([moved.code, moved.err.includes('send the value itself')]).toEqual([1, true])
    await json('job', 'create', 'spare', '--http', 'https://example.com/')
    expect((await belfry('job', 'delete', 'spare')).code).toBe(0)
    const gone = await belfry('job', 'get', 'spare')
    expect([gone.code, gone.err.includes('There is no job "spare"')]).toEqual([1, true])
  })
})

describe('schedules', () => {
  it('are made, shown, paused, resumed, triggered and deleted', async () => {
    const made = await belfry(
      'schedule',
      'create',
      'nightly',
      '--cron',
      '0 2 * * *',
      '--job',
      'report',
      '--input',
      '[1]',
    )
    expect([made.code, made.err.includes('Created the schedule nightly')]).toEqual([0, true])
    expect((await belfry('schedule', 'list')).out).toMatch(/nightly +cron 0 2 \* \* \* +report +active/)
    expect((await belfry('schedule', 'get', 'nightly')).out).toMatch(/Input +\[1\]/)
    expect(await json('schedule', 'pause', 'nightly', '--reason', 'moving')).toMatchObject({
      state: 'paused',
    })
    const twice = await belfry('schedule', 'pause', 'nightly')
    expect([twice.code, twice.err.includes('paused and cannot be paused')]).toEqual([1, true])
    expect((await belfry('schedule', 'list', '--state', 'paused', '-o', 'name')).out).toBe('nightly\n')
    expect(await json('schedule', 'resume', 'nightly')).toMatchObject({ state: 'active', pausedReason: null })
    const run = await json('schedule', 'trigger', 'nightly')
    expect(run).toMatchObject({ source: 'trigger', input: [1], state: 'pending' })
    expect((await belfry('run', 'list', '--schedule', 'nightly', '-o', 'name')).out).toBe(
      `${String(run['id'])}\n`,
    )
    expect((await belfry('schedule', 'occurrences', 'nightly')).err).toContain('Nothing fell due')
    expect((await belfry('schedule', 'update', 'nightly', '--every', '1h')).err).toContain('every 1h')
    const dry = await belfry('schedule', 'delete', 'nightly', '--dry-run')
    expect([dry.code, (await belfry('schedule', 'get', 'nightly')).code]).toEqual([0, 0])
    expect((await belfry('schedule', 'delete', 'nightly')).code).toBe(0)
    expect((await belfry('schedule', 'get', 'nightly')).code).toBe(1)
  })

  it('that cannot be are refused, with the flag that is wrong', async () => {
    const wrong = await belfry('schedule', 'create', 'x', '--cron', '61 * * * *', '--job', 'report')
    expect([wrong.code, wrong.err.includes('--cron')]).toEqual([1, true])
  })
})

describe('runs', () => {
  const start = async (...more: string[]) => String((await json('run', 'create', 'report', ...more))['id'])

  it('are waited for: 0 for a success, 5 for a failure, 6 when the time is over', async () => {
    const well = await start()
    expect((await belfry('run', 'wait', well, '--timeout', '1ms')).code).toBe(6)
    const waiting = belfry('run', 'wait', well, '--timeout', '30s')
    await worker.claim(well)
    await worker.end(well)
    const done = await waiting
    expect([done.code, done.out.includes('succeeded')]).toEqual([0, true])
    const bad = await start()
    await worker.claim(bad)
    await worker.end(bad, {
      outcome: 'failed',
      state: 'failed',
      reason: 'not_retryable',
      code: 'http_status',
      status: 404,
    })
    const failed = await belfry('run', 'wait', bad)
    expect([failed.code, failed.err.includes('The run ended failed (not_retryable): http_status')]).toEqual([
      5,
      true,
    ])
    const logs = await belfry('run', 'logs', bad)
    expect(logs.out).toContain('HTTP 404')
    expect(logs.out).toContain('    answer\n')
    expect(await json('run', 'get', bad)).toMatchObject({ state: 'failed', attemptsTotal: 1 })
    expect((await belfry('run', 'list', '--state', 'failed', '-o', 'name')).out).toBe(`${bad}\n`)
  })

  it('are canceled, once', async () => {
    const id = await start('--at', '+10m')
    expect((await belfry('run', 'cancel', id)).err).toContain(`Canceled: run ${id} of report is canceled`)
    const twice = await belfry('run', 'cancel', id)
    expect([twice.code, twice.err.includes('already ended (canceled)')]).toEqual([1, true])
    expect((await belfry('run', 'logs', id)).out).toContain('Without an attempt: canceled')
  })

  it('with very many attempts are shown in part, or whole when asked for', async () => {
    const id = await start()
    await t.database.sql(
      `INSERT INTO belfry.attempt
         (run_id, number, tenant_id, lease_epoch, outcome, started_at, retry_at, response)
       SELECT $1, n, $2, n, 'failed', now(), now(), 'try ' || n FROM generate_series(1, 120) AS n`,
      [id, t.tenantId],
    )
    const part = await belfry('run', 'logs', id)
    expect(part.err).toContain('20 older attempts are not shown: add --all')
    expect(part.out).not.toMatch(/try 20$/m)
    const whole = await belfry('run', 'logs', id, '--all')
    expect(whole.out.match(/try \d+/g)).toEqual(Array.from({ length: 120 }, (_, n) => `try ${n + 1}`))
    expect((await belfry('run', 'get', id)).out).toMatch(/Older attempts +20, not shown here/)
  })
})

describe('keys', () => {
  it('are made with a secret that works, in a dry run with none, and revoked', async () => {
    const dry = await belfry('key', 'create', 'ci', '--scope', 'read', '--dry-run')
    expect([dry.code, dry.out.includes('bfy_'), dry.err.includes('keep it now')]).toEqual([0, false, false])
    const { secret } = await json('key', 'create', 'ci', '--scope', 'read')
    const asReader = (...argv: string[]) =>
      runAlone(argv, { env: { ...env, BELFRY_API_KEY: String(secret) } })
    expect((await asReader('job', 'list', '-o', 'name')).out).toBe('report\n')
    const refused = await asReader('job', 'delete', 'report')
    expect([refused.code, refused.err.includes('forbidden') || refused.err.includes('scope')]).toEqual([
      4,
      true,
    ])
    expect((await belfry('key', 'list', '-o', 'name')).out).toContain('ci\n')
    expect((await belfry('key', 'revoke', 'ci')).code).toBe(0)
    expect((await asReader('job', 'list')).code).toBe(4)
  })
})
