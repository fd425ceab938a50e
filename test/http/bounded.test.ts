// No answer and no list call is as large, or as long, as what people have stored: items of lists leave out
// what may be large, attempts come in pages, and a filter that nothing passes ends after a bounded look.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { playWorker, type PlayedWorker } from '../support/played-worker.ts'

let t: TestApi
let worker: PlayedWorker
beforeAll(async () => {
  t = await startTestApi()
  worker = playWorker(t.database)
})
afterAll(() => t.close())

const big = 'x'.repeat(200_000)

describe('items of lists', () => {
  it('of jobs have neither body nor headers, the job itself has both', async () => {
    const handler = {
      kind: 'http',
      url: 'https://example.com/',
      headers: { 'X-Big': 'y'.repeat(8_000) },
      body: big,
    }
    const { body: job } = await t.call('POST', '/v1/jobs', { body: { name: 'big', handler } })
    for (const path of ['/v1/jobs', '/v1/jobs?name=big']) {
      const { body } = await t.call('GET', path)
      expect(body.items).toMatchObject([{ id: job.id, queue: 'default', version: 1 }])
      expect(body.items[0]?.handler).toEqual({ kind: 'http', url: 'https://example.com/', method: 'POST' })
    }
    expect((await t.call('GET', `/v1/jobs/${job.id}`)).body.handler).toEqual({ ...handler, method: 'POST' })
    expect((await t.call('GET', '/v1/jobs?name=none')).body).toEqual({ items: [], nextCursor: null })
  })

  it('of schedules have no input, the schedule itself has', async () => {
    const body = { name: 'big', job: 'big', every: '1h', input: big }
    const { body: schedule } = await t.call('POST', '/v1/schedules', { body })
    for (const query of ['', '?name=big', '?state=active', `?jobId=${schedule.jobId}`]) {
      const { body: page } = await t.call('GET', `/v1/schedules${query}`)
      expect(page.items).toMatchObject([{ id: schedule.id, nextAt: schedule.nextAt }])
      expect(page.items[0]).not.toHaveProperty('input')
    }
    for (const query of ['?name=none', '?state=paused', `?jobId=${schedule.id}`])
      expect((await t.call('GET', `/v1/schedules${query}`)).body).toEqual({ items: [], nextCursor: null })
    expect((await t.call('GET', `/v1/schedules/${schedule.id}`)).body.input).toBe(big)
  })
})

describe('attempts of a run', () => {
  /** A run with so many attempts that failed, and one that runs. */
  async function triedRun(tries: number): Promise<string> {
    const { id } = (await t.call('POST', '/v1/runs', { body: { job: 'big' } })).body
    await t.database.sql(
      `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, started_at, retry_at,
         error_code, error_message, response)
       SELECT $1, n, $2, n, 'failed', now() + n * interval '1 s', now(), 'http_status', 'bad',
         repeat('x', 16384)
       FROM generate_series(1, $3::int) AS n`,
      [id, t.tenantId, tries],
    )
    await t.database.sql(
      'UPDATE belfry.ready SET attempt = $2::int, lease_epoch = $2::int WHERE run_id = $1',
      [id, tries],
    )
    await worker.claim(id)
    return id
  }

  it('come with it up to a hundred, the newest, and in pages', async () => {
    const id = await triedRun(250)
    const { body: run } = await t.call('GET', `/v1/runs/${id}`)
    const numbers = run.attemptList.map(({ number }) => number)
    expect(numbers).toEqual(Array.from({ length: 100 }, (_, n) => 152 + n))
    expect(run).toMatchObject({ attempts: 251, attemptsTotal: 251, state: 'running' })
    const seen: number[] = []
    let pages = 0
    for (let cursor: string | null = ''; cursor !== null; pages++) {
      const query = cursor === '' ? '' : `&cursor=${cursor}`
      const { body: page } = await t.call('GET', `/v1/runs/${id}/attempts?limit=100${query}`)
      seen.push(...page.items.map(({ number }) => number))
      cursor = page.nextCursor
    }
    expect([pages, seen]).toEqual([3, Array.from({ length: 251 }, (_, n) => 251 - n)])
    expect((await t.call('GET', `/v1/runs/${id}/attempts?limit=1`)).body.items).toMatchObject([
      { number: 251, outcome: 'running' },
    ])
    expect((await t.call('GET', `/v1/runs/${id}/attempts?limit=101`)).body.code).toBe('invalid_request')
    expect((await t.call('GET', `/v1/runs/${t.tenantId}/attempts`)).body.code).toBe('not_found')
  })

  it('with the end of a run that waited, number 0, as the newest', async () => {
    const { id } = (await t.call('POST', '/v1/runs', { body: { job: 'big' } })).body
    await worker.claim(id)
    await worker.end(id, { outcome: 'failed', state: null })
    await t.database.sql(
      `INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
         priority, timeout_ms, lease_epoch, attempt, crash_count)
       SELECT id, tenant_id, job_id, 1, now(), 0, queue, 'http', 0, 1000, 1, 1, 0
       FROM belfry.run WHERE id = $1`,
      [id],
    )
    const { body: canceled } = await t.call('POST', `/v1/runs/${id}/cancel`)
    expect(canceled.attemptList.map(({ number }) => number)).toEqual([1, 0])
    const first = (await t.call('GET', `/v1/runs/${id}/attempts?limit=1`)).body
    expect(first.items).toMatchObject([{ number: 0, outcome: 'canceled' }])
    const second = (await t.call('GET', `/v1/runs/${id}/attempts?limit=1&cursor=${first.nextCursor}`)).body
    expect([second.items.map(({ number }) => number), second.nextCursor]).toEqual([[1], null])
  })
})

describe('a filter that few things pass', () => {
  const looked = 5_000
  type Listed = {
    readonly items: readonly { readonly id: string; readonly scheduledFor: string }[]
    readonly calls: number
  }

  /** Follows the cursors to the end. */
  async function walk(path: string): Promise<Listed> {
    const items: Listed['items'][number][] = []
    let calls = 0
    for (let cursor: string | null = ''; cursor !== null; calls++) {
      const { body } = await t.call('GET', cursor === '' ? path : `${path}&cursor=${cursor}`)
      items.push(...body.items)
      cursor = body.nextCursor
    }
    return { items, calls }
  }

  /** `count` runs of the job that ended in this state, made by the second up to now. */
  async function addEnded(jobId: string, count: number, state: string): Promise<void> {
    await t.database.sql(
      `WITH made AS (
         INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
         SELECT (left(belfry.uuid_floor(now() - n * interval '1 s')::text, 13) || '-7000-8000-' ||
                 lpad(to_hex(n), 12, '0'))::uuid, $1, $2, 1, 'manual', 'default', 0, now()
         FROM generate_series(1, $3::int) AS n
         RETURNING id, tenant_id)
       INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
       SELECT id, 1, tenant_id, 1, 'failed', $4, now() FROM made`,
      [t.tenantId, jobId, count, state],
    )
  }

  it('is looked for in a bounded stretch of the runs a page, and found in the end', async () => {
    const { body: early } = await t.call('POST', '/v1/runs', { body: { job: 'big' } })
    await worker.claim(early.id)
    await worker.end(early.id)
    const { body: job } = await t.call('POST', '/v1/jobs', { body: httpJob('often') })
    await addEnded(job.id, 2 * looked + 10, 'failed')
    const succeeded = await walk('/v1/runs?state=succeeded')
    expect(succeeded.items.map(({ id }) => id)).toEqual([early.id])
    expect(succeeded.calls).toBeGreaterThanOrEqual(3)
    expect((await walk(`/v1/runs?state=succeeded&jobId=${job.id}`)).calls).toBe(3)
    const ofAnother = await walk(`/v1/runs?state=failed&jobId=${early.jobId}`)
    expect([ofAnother.items, ofAnother.calls]).toEqual([[], 3])
    const all = await walk(`/v1/runs?limit=1000&state=failed`)
    expect(new Set(all.items.map(({ id }) => id)).size).toBe(2 * looked + 10)
  })

  it('waiting runs of one job among many of another too', async () => {
    const { body: rare } = await t.call('POST', '/v1/jobs', { body: httpJob('rare') })
    const { body: waiting } = await t.call('POST', '/v1/runs', { body: { job: 'rare' } })
    await t.database.sql(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
         available_at, timeout_ms)
       SELECT id, tenant_id, job_id, 1, queue, 'http', 1, 0, now(), 1000 FROM belfry.run
       WHERE job_id <> $1 AND id <> ALL (SELECT run_id FROM belfry.ready)`,
      [rare.id],
    )
    const found = await walk(`/v1/runs?state=pending&jobId=${rare.id}`)
    expect(found.items.map(({ id }) => id)).toEqual([waiting.id])
    expect(found.calls).toBe(3)
  })

  it('an outcome among many occurrences too', async () => {
    const { body: schedule } = await t.call('POST', '/v1/schedules', {
      body: { name: 'often', job: 'often', every: '1h' },
    })
    await t.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       SELECT $1, timestamptz '2026-06-01T00:00:00Z' + n * interval '1 min', $2,
         CASE n WHEN 1 THEN 'skipped' ELSE 'missed' END, 'overlap', now()
       FROM generate_series(1, $3::int) AS n`,
      [schedule.id, t.tenantId, 2 * looked + 1],
    )
    const found = await walk(`/v1/schedules/${schedule.id}/occurrences?outcome=skipped`)
    expect([found.items.map(({ scheduledFor }) => scheduledFor), found.calls]).toEqual([
      ['2026-06-01T00:01:00.000Z'],
      3,
    ])
  })
})
