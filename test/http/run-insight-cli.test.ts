// What the command line shows of one run: its timeline, why it is where it is, its log as it is written, and
// its end; against the real API, with a worker that speaks the protocol by hand.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, openHandWorker, registerFunctions, type HandWorker } from '../support/remote-worker.ts'

let api: TestApi
let worker: HandWorker
let env: Record<string, string>

beforeAll(async () => {
  api = await startTestApi()
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-cli-')),
    BELFRY_URL: await api.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: api.adminKey,
    TZ: 'UTC',
  }
  await registerFunctions(
    api,
    { name: 'mail', retry: { maxAttempts: 2, baseMs: 3_600_000, capMs: 3_600_000, jitter: 'none' } },
    { name: 'orphan', queue: 'nowhere' },
  )
  worker = await openHandWorker(api, { functions: ['mail', 'orphan'] })
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await api.close()
})

async function belfry(...argv: string[]) {
  const ran = await runAlone(argv, { env, now: () => Date.now() })
  if (process.env['SEE'] !== undefined)
    process.stdout.write(`$ belfry ${argv.join(' ')}\n${ran.out}${ran.err}\n`)
  return ran
}

async function begin() {
  const id = await enqueue(api, 'mail', { to: 'a@example.com' })
  return eventually(async () => (await worker.claim()).find((run) => run.runId === id))
}
type Claimed = Awaited<ReturnType<typeof begin>>

const log = ({ runId, leaseEpoch }: Claimed, firstLine: number, ...messages: readonly string[]) =>
  worker.call('log', {
    chunks: [
      {
        runId,
        leaseEpoch,
        firstLine,
        lines: messages.map((message) => ({ at: '2026-12-01T00:00:00Z', level: 'info', message })),
      },
    ],
  })

describe('run get', () => {
  test('tells what happened, step by step', async () => {
    const run = await begin()
    await worker.complete(run, { outcome: 'failed', error: { code: 'smtp_421', message: 'try again later' } })
    const { code, out } = await belfry('run', 'get', run.runId)
    expect(code).toBe(0)
    const timeline = out.slice(out.indexOf('Timeline'))
    expect(timeline).toMatch(/Created, due at once\./)
    expect(timeline).toMatch(/\+\d+.* Attempt 1 failed after 5 ms: try again later \(smtp_421\)/)
    const left = /Waits for the next attempt, as the retry policy says, 1 hour in all, (.*) left/.exec(
      timeline,
    )
    expect(left?.[1]).toMatch(/^(1 hour|59 minutes and 59 seconds)$/)
  })
})

describe('run explain', () => {
  const explained = async (id: string) => {
    const shown = await belfry('run', 'explain', id)
    const { out } = await belfry('run', 'explain', id, '-o', 'json')
    return { shown: shown.out, told: JSON.parse(out) as Record<string, unknown> }
  }

  test('of a run that nobody can run says who is missing', async () => {
    const { shown, told } = await explained(await enqueue(api, 'orphan'))
    expect(told).toMatchObject({ verdict: 'no_worker', state: 'pending', place: { ahead: 0, capped: false } })
    expect(shown).toContain('no worker with the function "orphan" serves the queue "nowhere"')
    expect(shown).toContain('1 worker of the function serves other queues.')
    expect(shown).toMatch(/To do: Start a worker that has the function "orphan"/)
  })

  test('of a run in the queue says how many are before it', async () => {
    const ids = [await enqueue(api, 'mail'), await enqueue(api, 'mail'), await enqueue(api, 'mail')]
    const places = await Promise.all(ids.map(async (id) => (await explained(id)).told['place']))
    expect(places).toEqual([0, 1, 2].map((ahead) => ({ ahead, capped: false })))
    const [, , last = ''] = ids
    expect((await explained(last)).shown).toContain(
      '2 runs before it in the fair order of the queue "default"',
    )
    for (const run of await worker.claim()) await worker.complete(run, { outcome: 'succeeded' })
  })

  test('of a running one says where; of one whose worker is lost what comes next', async () => {
    const run = await begin()
    const { told } = await explained(run.runId)
    expect(told).toMatchObject({ verdict: 'running', workerId: worker.id })
    const other = await openHandWorker(api, { functions: ['mail'] })
    await worker.complete(run, { outcome: 'succeeded' })
    const id = await enqueue(api, 'mail')
    await eventually(async () => (await other.claim()).find((claimed) => claimed.runId === id))
    await api.database.sql(
      `UPDATE belfry.session SET heartbeat_at = now() - interval '40 s', expires_at = now() - interval '10 s'
       WHERE id = $1`,
      [other.id],
    )
    const lost = await explained(id)
    expect(lost.told['verdict']).toBe('worker_lost')
    expect(lost.shown).toContain('Its worker was last heard of 40 seconds ago')
  })

  test('of one that has ended says why; of a later one when', async () => {
    const run = await begin()
    await worker.complete(run, {
      outcome: 'failed',
      retryable: false,
      error: { code: 'no_such_user', message: 'nobody of that name' },
    })
    const { shown, told } = await explained(run.runId)
    expect(told).toMatchObject({ verdict: 'ended', state: 'failed', reason: 'not_retryable' })
    expect(shown).toContain('no_such_user: nobody of that name')
    const later = await belfry('run', 'create', 'mail', '--at', '+10m', '-o', 'json')
    const { id } = JSON.parse(later.out) as { id: string }
    expect((await explained(id)).told).toMatchObject({ verdict: 'waiting_for_time' })
    expect((await belfry('run', 'explain', '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f')).code).toBe(1)
  })
})

describe('run logs -f', () => {
  test('shows lines as they come, and the end', async () => {
    const run = await begin()
    await log(run, 0, 'sending')
    const following = belfry('run', 'logs', run.runId, '-f')
    await eventually(async () => api.hints.some(({ topic, key }) => topic === 'watch' && key === run.runId))
    await log(run, 1, 'sent')
    await worker.complete(run, { outcome: 'succeeded' })
    const { code, out, err } = await following
    expect(code).toBe(0)
    expect(out).toBe('2026-12-01 00:00:00 info  sending\n2026-12-01 00:00:00 info  sent\n')
    expect(err).toBe('The run has ended: succeeded.\n')
  })
})

describe('run wait', () => {
  test('of several runs is over when all have ended', async () => {
    const good = await begin()
    const bad = await begin()
    await worker.complete(good, { outcome: 'succeeded' })
    const waiting = belfry('run', 'wait', good.runId, bad.runId)
    await worker.complete(bad, { outcome: 'failed', retryable: false, error: { code: 'x', message: 'no' } })
    const { code, out, err } = await waiting
    expect(code).toBe(5)
    expect(out).toContain(good.runId)
    expect(out).toContain(bad.runId)
    expect(err).toContain('The run ended failed (not_retryable): no (x)')
    expect((await belfry('run', 'wait', good.runId, good.runId)).code).toBe(0)
  })

  test('ends in time with its own exit code, and shows those that have ended', async () => {
    const run = await begin()
    expect((await belfry('run', 'wait', run.runId, '--timeout', '100ms')).code).toBe(6)
    const other = await begin()
    await worker.complete(other, { outcome: 'succeeded' })
    const { code, out, err } = await belfry('run', 'wait', run.runId, other.runId, '--timeout', '100ms')
    expect(code).toBe(6)
    expect(out).toContain(other.runId)
    expect(err).toContain('1 of 2 runs have not ended')
    await worker.complete(run, { outcome: 'succeeded' })
  })

  test('refuses what is no id, and a run that is not there', async () => {
    expect((await belfry('run', 'wait', 'nonsense')).code).toBe(1)
    expect((await belfry('run', 'wait')).code).toBe(2)
    const unknown = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
    expect((await belfry('run', 'wait', unknown, unknown.replace('019', '018'))).code).toBe(1)
  })
})

test('every command of the page about it works', async () => {
  const page = readFileSync(new URL('../../docs/how-to/follow-a-run.md', import.meta.url), 'utf8')
  const lines = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
    block.trimEnd().split('\n'),
  )
  expect(lines.length).toBeGreaterThanOrEqual(3)
  const run = await begin()
  await worker.complete(run, { outcome: 'succeeded' })
  for (const line of lines) {
    const [program, ...argv] = line.replace('019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', run.runId).split(' ')
    expect([line, program, (await belfry(...argv)).code]).toEqual([line, 'belfry', 0])
  }
})
