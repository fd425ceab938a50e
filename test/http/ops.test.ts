// The ops port, the metrics and the log, fed with events as the engine emits them.
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createEventLog } from '../../packages/server/src/telemetry/event-log.ts'
import { createEventFanOut } from '../../packages/server/src/telemetry/fan-out.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { metricTable } from '../../packages/server/src/telemetry/metric-table.ts'
import { createMetrics, type Metrics } from '../../packages/server/src/telemetry/metrics.ts'
import { createOps, type Ops } from '../../packages/server/src/telemetry/ops-server.ts'
import { startTestApi } from '../support/api.ts'

const ended = { runId: 'r', tenantId: 't', jobId: 'j', attempt: 1, durationMs: 1_500, errorCode: null }

/** After the events of the first test. */
const counted = [
  'belfry_runs_finished_total{queue="mail",outcome="succeeded"} 1',
  'belfry_run_duration_seconds_count{queue="mail",outcome="failed"} 1',
  'belfry_run_wait_seconds_sum{queue="mail"} 2.01',
  'belfry_claim_duration_seconds_count{queue="mail"} 1',
  'belfry_schedule_lag_seconds_sum 0.007',
  'belfry_occurrences_total{outcome="ran",reason="none"} 1',
  'belfry_occurrences_total{outcome="missed",reason="catch_up_latest"} 40',
  'belfry_runs_enqueued_total{queue="mail",source="manual"} 3',
  'belfry_runs_rescued_total{reason="session_lost"} 2',
  'belfry_gate_runs_total{outcome="opened"} 5',
  'belfry_gate_runs_total{outcome="skipped"} 2',
  'belfry_gate_runs_total{outcome="replaced"} 0',
  'belfry_gate_look_seconds_count 2',
  'belfry_gate_held_runs 12',
  'belfry_workflow_hop_seconds_sum 0.012',
  'belfry_workflow_round_seconds_count 1',
  'belfry_workflow_runs_finished_total{state="failed"} 1',
  'belfry_workflow_events_found_total 2',
  'belfry_workflow_events_waiting 3',
  'belfry_workflow_events_oldest_seconds 1.5',
  'belfry_workflow_runs_alive 7',
  'belfry_leases_lost_total{at="complete"} 1',
  'belfry_leader{role="scheduler"} 1',
  'belfry_shards_held 64',
  'belfry_clock_skew_seconds -0.25',
  'belfry_role_failures_total{role="worker"} 1',
  'belfry_worker_slots{state="free"} 7',
  'belfry_db_pool_connections{state="used"} 3',
  'belfry_http_request_duration_seconds_count{method="GET",route="/v1/jobs/:id",status="200"} 1',
  `belfry_build_info{version="1.2.3",node="${process.version}"} 1`,
]

describe('metrics', () => {
  it('count what the events say, with bounded labels', async () => {
    const metrics = createMetrics({ version: '1.2.3', processMetrics: false })
    const { events, requests } = metrics
    events.emit('attempt_ended', { ...ended, queue: 'mail', outcome: 'succeeded', state: 'succeeded' })
    events.emit('attempt_ended', { ...ended, queue: 'mail', outcome: 'failed', state: 'pending' })
    events.emit('runs_claimed', { queue: 'mail', count: 2, durationMs: 4, waitsMs: [10, 2_000] })
    events.emit('occurrences_fired', {
      durationMs: 1,
      outcomes: [
        { scheduleId: 's', scheduledFor: 0, outcome: 'ran', reason: null, count: 1, lateMs: 7 },
        {
          scheduleId: 's',
          scheduledFor: 0,
          outcome: 'missed',
          reason: 'catch_up_latest',
          count: 40,
          lateMs: 9,
        },
      ],
    })
    events.emit('runs_enqueued', { count: 3, queue: 'mail', source: 'manual' })
    events.emit('runs_rescued', { count: 2, reason: 'session_lost', requeued: 2, failed: 0 })
    for (const opened of [2, 3])
      events.emit('gate_passed', { tenantId: 't', opened, skipped: 1, replaced: 0, durationMs: 5 })
    events.emit('workflows_moved', { moved: 2, ended: { failed: 1 }, waitsMs: [4, 8], durationMs: 3 })
    events.emit('workflow_events_found', { count: 2 })
    events.emit('lease_lost', { runId: 'r', leaseEpoch: 1, at: 'complete' })
    events.emit('shards_changed', { held: 64, gained: [1], lost: [] })
    events.emit('role_failed', { role: 'worker', error: new Error('x'), retryInMs: 1 })
    requests.answered({ method: 'GET', route: '/v1/jobs/:id', status: 200, durationMs: 3 })
    metrics.readSkew(() => -250)
    metrics.readSlots(() => ({ used: 3, free: 7 }))
    metrics.readGate(() => ({ held: 12 }))
    metrics.readWorkflows(() => ({ events: 3, oldestMs: 1_500, alive: 7 }))
    metrics.readConnections(() => ({ open: 5, idle: 2, waiting: 1 }))
    const text = await metrics.render()
    for (const line of counted) {
      expect(text).toContain(`${line}\n`)
    }
    expect(text).not.toContain('outcome="pending"')
    for (const name of Object.keys(metricTable)) expect(text).toContain(`# TYPE ${name} `)
  })

  it('give the first hundred queues a label, the others share one', async () => {
    const metrics = createMetrics({ version: '0', processMetrics: false })
    for (let n = 0; n < 150; n++)
      metrics.events.emit('runs_enqueued', { count: 1, queue: `q${n}`, source: 'manual' })
    const text = await metrics.render()
    expect(text).toContain('queue="q99"')
    expect(text).not.toContain('queue="q100"')
    expect(text).toContain('belfry_runs_enqueued_total{queue="other",source="manual"} 50\n')
  })

  it('follow the naming rules', () => {
    for (const [name, { type }] of Object.entries(metricTable)) {
      expect(name).toMatch(/^belfry_[a-z_]+$/)
      expect(name.endsWith('_total')).toBe(type === 'counter')
      expect(name).not.toMatch(/millis|_ms$/)
    }
  })

  it('see the routes of the API by their pattern', async () => {
    const metrics = createMetrics({ version: '0', processMetrics: false })
    const t = await startTestApi({ observer: metrics.requests })
    await t.call('GET', '/v1/jobs/019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f')
    await t.call('GET', '/v1/nothing/here')
    await t.close()
    const text = await metrics.render()
    expect(text).toContain('_count{method="GET",route="/v1/jobs/:id",status="404"} 1')
    expect(text).toContain('_count{method="GET",route="unknown",status="404"} 1')
  })
})

describe('the log', () => {
  const lines: Record<string, unknown>[] = []
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const line of chunk.toString().trim().split('\n'))
        lines.push(JSON.parse(line) as Record<string, unknown>)
      done()
    },
  })
  const logger = createLogger({ version: '1', level: 'debug', destination })

  it('has whole milliseconds, at every depth', () => {
    const lines: string[] = []
    const destination = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines.push(chunk.toString())
        done()
      },
    })
    const events = createEventLog(createLogger({ level: 'debug', version: '1', destination }))
    events.emit('attempt_ended', {
      ...ended,
      durationMs: 1_500.123456,
      queue: 'q',
      outcome: 'succeeded',
      state: 'succeeded',
    })
    events.emit('runs_claimed', { queue: 'q', count: 2, durationMs: 0.4, waitsMs: [10.6, 3.2] })
    events.emit('occurrences_fired', {
      durationMs: 1.5,
      outcomes: [{ scheduleId: 's', scheduledFor: 0, outcome: 'ran', reason: null, count: 1, lateMs: 7.25 }],
    })
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { durationMs: 1_500 },
      { durationMs: 0, waitsMs: [11, 3] },
      { durationMs: 2, outcomes: [{ lateMs: 7 }] },
    ])
  })

  it('is a JSON line an event, at the level that it deserves', () => {
    const events = createEventLog(logger)
    events.emit('attempt_ended', {
      ...ended,
      queue: 'q',
      outcome: 'failed',
      state: 'failed',
      errorCode: 'http_status',
    })
    events.emit('role_failed', { role: 'worker', error: new Error('broken'), retryInMs: 5 })
    events.emit('clock_skew', { skewMs: 5_000 })
    events.emit('clock_skew', { skewMs: 5 })
    expect(lines.map(({ level, event }) => `${String(level)} ${String(event)}`)).toEqual([
      'warn attempt_ended',
      'error role_failed',
      'warn clock_skew',
      'debug clock_skew',
    ])
    expect(lines[0]).toMatchObject({
      service: 'belfry',
      version: '1',
      errorCode: 'http_status',
      message: 'attempt ended',
    })
    expect(lines[1]).toMatchObject({ role: 'worker', err: { message: 'broken' } })
  })

  it('masks what is named like a credential', () => {
    logger.info({ headers: { authorization: 'Bearer bfy_x' }, password: 'p', a: { b: { token: 'q' } } }, 'x')
    expect(JSON.stringify(lines.at(-1))).not.toMatch(/bfy_x|"p"|"q"/)
  })

  it('a listener that throws keeps nothing from the others', () => {
    const heard: string[] = []
    const faults: unknown[] = []
    const bad = {
      emit: () => {
        throw new Error('bad')
      },
    }
    const sink = createEventFanOut([bad, { emit: (name) => void heard.push(name) }], (error) =>
      faults.push(error),
    )
    sink.emit('runs_released', { count: 1 })
    expect([heard, faults.length]).toEqual([['runs_released'], 1])
  })
})

describe('the ops port', () => {
  let ops: Ops
  let url: string
  let fault: string | undefined
  const found = { status: 'warn', message: 'two are open', facts: { open: 2 } } as const
  const metrics: Metrics = createMetrics({ version: '0' })
  beforeAll(async () => {
    const check = () => (fault === undefined ? Promise.resolve() : Promise.reject(new Error(fault)))
    const stuck = () => new Promise<void>((resolve) => (fault === 'stuck' ? undefined : resolve()))
    ops = createOps({
      version: '1.2.3',
      metrics,
      reports: [
        { name: 'zone_data', report: () => ({ status: 'ok', message: null, facts: { version: '2026f' } }) },
        {
          name: 'replans',
          report: () => (fault === undefined ? found : Promise.reject(new Error(fault))),
        },
      ],
      checks: [
        { name: 'database', check },
        { name: 'slow', check: stuck },
      ],
      checkTimeoutMs: 50,
    })
    url = await ops.listen({ host: '127.0.0.1', port: 0 })
  })
  afterAll(() => ops.close())
  const get = async (path: string, method = 'GET') => {
    const answer = await fetch(`${url}${path}`, { method })
    return { status: answer.status, text: await answer.text(), type: answer.headers.get('content-type') }
  }

  it('is alive whatever the database does; ready only when every check passes', async () => {
    expect(await get('/readyz')).toMatchObject({ status: 200, text: 'ok\n' })
    fault = 'no answer'
    expect(await get('/livez')).toMatchObject({ status: 200 })
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      text: expect.stringContaining('[-] database: no answer') as string,
    })
    fault = 'stuck'
    expect((await get('/readyz')).text).toContain('[-] slow: no answer within 50 ms')
    fault = undefined
    expect((await get('/readyz')).status).toBe(200)
  })

  it('tells all it knows with ?verbose, as JSON; reports decide nothing', async () => {
    const verbose = async () => {
      const { status, text, type } = await get('/readyz?verbose')
      expect(type).toContain('application/json')
      return { code: status, ...(JSON.parse(text) as object) }
    }
    const passed = (name: string) => ({ name, status: 'ok', message: null })
    const zoneData = { ...passed('zone_data'), facts: { version: '2026f' } }
    expect(await verbose()).toEqual({
      code: 200,
      status: 'ready',
      version: '1.2.3',
      checks: [
        passed('not_draining'),
        passed('database'),
        passed('slow'),
        zoneData,
        { name: 'replans', ...found },
      ],
    })
    fault = 'no answer'
    expect(await verbose()).toMatchObject({
      code: 503,
      status: 'not_ready',
      checks: [
        passed('not_draining'),
        { name: 'database', status: 'fail', message: 'no answer' },
        passed('slow'),
        zoneData,
        { name: 'replans', status: 'warn', message: 'no answer', facts: {} },
      ],
    })
    fault = undefined
  })

  it('serves metrics in the Prometheus format, and little else', async () => {
    const { status, text, type } = await get('/metrics')
    expect([status, type]).toEqual([200, metrics.contentType])
    expect(text).toContain('process_cpu_user_seconds_total')
    expect((await get('/')).status).toBe(404)
    expect((await get('/metrics', 'POST')).status).toBe(405)
    expect((await get('/livez', 'HEAD')).text).toBe('')
  })

  it('says which port is taken', async () => {
    const second = createOps({ version: '0', metrics, checks: [], reports: [] })
    const port = Number(new URL(url).port)
    await expect(second.listen({ host: '127.0.0.1', port })).rejects.toMatchObject({ code: 'in_use' })
    await second.close()
  })

  it('is not ready from the moment it drains, and still alive', async () => {
    ops.drain()
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      text: expect.stringContaining('shutting down') as string,
    })
    expect((await get('/livez')).status).toBe(200)
  })
})
