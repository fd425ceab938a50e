// Every route of the contract once as it is meant, without a key, with a key of too small a scope, and with
// the id of another tenant's thing. The tables here are checked to be complete, so a new route cannot be
// forgotten.
import type { RouteName } from '@belfry/contract'
import { errorTable, type Route, routes, scopeAllows, scopes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Answer,
  type AnswerBody,
  type CallOptions,
  httpJob,
  startTestApi,
  type TestApi,
} from '../support/api.ts'
import { playWorker } from '../support/played-worker.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

type Thing =
  | 'job'
  | 'schedule'
  | 'run'
  | 'key'
  | 'backfill'
  | 'calendar'
  | 'worker'
  | 'letter'
  | 'pool'
  | 'workflow'
  | 'workflowRun'
type Things = Record<Thing, string>
let made = 0

/** One of each, of the tenant of `key`. */
async function makeThings(key: string): Promise<Things> {
  const n = made++
  const job = await t.call('POST', '/v1/jobs', { key, body: httpJob(`job-${n}`) })
  const schedule = await t.call('POST', '/v1/schedules', {
    key,
    body: { name: `s-${n}`, every: '1h', job: `job-${n}` },
  })
  const run = await t.call('POST', '/v1/runs', { key, body: { job: `job-${n}` } })
  const spare = await t.call('POST', '/v1/keys', { key, body: { name: `spare-${n}`, scopes: ['read'] } })
  const worker = await t.call('POST', '/v1/workers', {
    key,
    body: { functions: ['f'], queues: ['q'], slots: 1 },
  })
  const backfill = await t.call('POST', `/v1/schedules/${schedule.body.id}/backfills`, {
    key,
    body: { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' },
  })
  const ids = { job: job.body.id, schedule: schedule.body.id, run: run.body.id, key: spare.body.id }
  const body = { name: `c-${n}`, weekdays: ['sat', 'sun'] }
  const calendar = await t.call('POST', '/v1/calendars', { key, body })
  const failed = await t.call('POST', '/v1/runs', { key, body: { job: `job-${n}` } })
  await makeLetter(failed.body.id)
  const pool = await t.call('POST', '/v1/pools', { key, body: { name: `p-${n}`, slots: 2 } })
  const others = {
    calendar: calendar.body.id,
    worker: worker.body.id,
    letter: failed.body.id,
    pool: pool.body.id,
  }
  return { ...ids, backfill: backfill.body.id, ...others, ...(await makeWorkflow(key, n)) }
}

async function makeWorkflow(key: string, n: number): Promise<Pick<Things, 'workflow' | 'workflowRun'>> {
  const tasks = [
    { id: 'a', handler: httpJob('x').handler },
    { id: 'ok', approval: { message: 'May it?' } },
    { id: 'go', wait: { signal: 'go' } },
  ]
  const workflow = await t.call('POST', '/v1/workflows', { key, body: { name: `w-${n}`, tasks } })
  const run = await t.call('POST', '/v1/workflow-runs', { key, body: { workflow: `w-${n}` } })
  // as the resolver would leave it
  await t.database.sql(
    `INSERT INTO belfry.task_wait (id, tenant_id, workflow_run_id, task, task_id, kind, message, on_timeout,
                                   on_reject)
     SELECT gen_random_uuid(), tenant_id, id, 1, 'ok', 'approval', 'May it?', 'failed', 'failed'
     FROM belfry.workflow_run WHERE id = $1`,
    [run.body.id],
  )
  return { workflow: workflow.body.id, workflowRun: run.body.id }
}

/** A run that has failed, as the engine would leave it. */
async function makeLetter(id: string): Promise<void> {
  await playWorker(t.database).claim(id)
  await playWorker(t.database).end(id, { outcome: 'failed', state: 'failed', code: 'http_500' })
  await t.database.sql(
    `INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
     SELECT id, tenant_id, job_id, queue, 'http_500', '0123456789abcdef', date_trunc('milliseconds', now())
     FROM belfry.run WHERE id = $1`,
    [id],
  )
}

type Case = {
  readonly thing?: keyof Things
  readonly before?: string
  readonly query?: string
  readonly options?: (n: number) => CallOptions
}

const held = { runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', leaseEpoch: 1 }
const end = { outcome: 'succeeded', durationMs: 5 }
const log = { firstLine: 0, lines: [{ at: '2026-11-29T12:00:00Z', level: 'info', message: 'x' }] }

const markOfA = { tasks: ['a'], state: 'skipped', reason: 'by hand' }

const cases: Readonly<Record<RouteName, Case>> = {
  whoami: {},
  tenantCreate: { options: (n) => ({ body: { name: `tenant-${n}` } }) },
  tenantList: {},
  keyCreate: { options: (n) => ({ body: { name: `made-${n}`, scopes: ['read'] } }) },
  keyList: {},
  keyRevoke: { thing: 'key' },
  jobCreate: { options: (n) => ({ body: httpJob(`created-${n}`) }) },
  jobList: {},
  jobGet: { thing: 'job' },
  jobUpdate: { thing: 'job', options: () => ({ body: { priority: 7 } }) },
  jobDelete: { thing: 'job', before: 'schedule' },
  scheduleCreate: {
    options: (n) => ({ body: { name: `new-${n}`, cron: '*/5 * * * *', handler: httpJob('x').handler } }),
  },
  schedulePreview: { options: () => ({ body: { every: '1h' } }) },
  scheduleList: {},
  scheduleGet: { thing: 'schedule' },
  scheduleExplain: { thing: 'schedule' },
  scheduleUpdate: { thing: 'schedule', options: () => ({ body: { description: 'changed' } }) },
  scheduleDelete: { thing: 'schedule' },
  schedulePause: { thing: 'schedule', options: () => ({ body: { reason: 'holiday' } }) },
  scheduleResume: { thing: 'schedule', before: 'pause' },
  scheduleSkip: { thing: 'schedule', options: () => ({ body: { count: 2, reason: 'stock-taking' } }) },
  scheduleSleep: { thing: 'schedule', options: () => ({ body: { until: '2199-01-01T00:00:00Z' } }) },
  scheduleWake: { thing: 'schedule', before: 'skip' },
  scheduleTrigger: { thing: 'schedule' },
  occurrenceList: { thing: 'schedule' },
  backfillCreate: {
    thing: 'schedule',
    options: () => ({ body: { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' } }),
  },
  backfillList: {},
  backfillGet: { thing: 'backfill' },
  backfillPause: { thing: 'backfill', options: () => ({ body: { reason: 'peak hours' } }) },
  backfillResume: { thing: 'backfill', before: 'pauseBackfill' },
  backfillCancel: { thing: 'backfill', options: () => ({ body: { cancelRuns: true } }) },
  calendarCreate: { options: (n) => ({ body: { name: `days-${n}`, dates: ['2026-12-24'] } }) },
  calendarList: {},
  calendarGet: { thing: 'calendar' },
  calendarDays: { thing: 'calendar' },
  calendarUpdate: { thing: 'calendar', options: () => ({ body: { dates: ['2026-12-24'] } }) },
  calendarDelete: { thing: 'calendar' },
  workflowApply: {
    options: (n) => ({ body: { name: `flow-${n}`, tasks: [{ id: 'a', handler: httpJob('x').handler }] } }),
  },
  workflowList: {},
  workflowGet: { thing: 'workflow' },
  workflowVersionList: { thing: 'workflow' },
  workflowDiff: { thing: 'workflow' },
  workflowDelete: { thing: 'workflow' },
  workflowRunCreate: { options: () => ({ body: { workflow: 'w-0' } }) },
  eventSend: { options: (n) => ({ body: { event: 'made', key: `k-${n}` } }) },
  workflowRunList: {},
  workflowRunGet: { thing: 'workflowRun' },
  workflowRunTasks: { thing: 'workflowRun' },
  workflowRunCancel: { thing: 'workflowRun' },
  approvalList: {},
  workflowRunApprove: { thing: 'workflowRun', options: () => ({ body: { task: 'ok' } }) },
  workflowRunReject: { thing: 'workflowRun', options: () => ({ body: { task: 'ok', reason: 'no' } }) },
  workflowRunSignal: { thing: 'workflowRun', options: () => ({ body: { signal: 'go', payload: 1 } }) },
  workflowRunRerun: { thing: 'workflowRun', before: 'markTask', options: () => ({ body: { what: 'all' } }) },
  workflowRunMark: { thing: 'workflowRun', options: () => ({ body: markOfA }) },
  workflowRunSkip: { thing: 'workflowRun', options: () => ({ body: { tasks: ['a'] } }) },
  workflowRunExplain: { thing: 'workflowRun', query: '?task=a' },
  workflowRunHistory: { thing: 'workflowRun' },
  runCreate: { options: () => ({ body: { job: 'job-0' } }) },
  runBatch: { options: () => ({ body: { items: [{ job: 'job-0' }] } }) },
  runList: {},
  runGet: { thing: 'run' },
  attemptList: { thing: 'run' },
  runCancel: { thing: 'run' },
  runLog: { thing: 'run' },
  runCancelMany: { options: () => ({ body: { filter: { state: ['pending'] } } }) },
  deadLetterList: {},
  deadLetterGroups: {},
  deadLetterGet: { thing: 'letter' },
  deadLetterReplay: { thing: 'letter' },
  deadLetterReplayMany: { options: () => ({ body: { filter: { queue: 'none' } } }) },
  deadLetterDelete: { thing: 'letter' },
  deadLetterDeleteMany: { options: () => ({ body: { filter: { queue: 'none' } } }) },
  poolCreate: { options: (n) => ({ body: { name: `pool-${n}`, slots: 3 } }) },
  poolList: {},
  poolGet: { thing: 'pool' },
  poolUpdate: { thing: 'pool', options: () => ({ body: { slots: 2 } }) },
  poolDelete: { thing: 'pool' },
  tenantLimitGet: {},
  tenantLimitSet: { options: () => ({ body: { runLimit: null } }) },
  queueList: {},
  queueGet: {},
  queueStats: {},
  queuePause: { options: () => ({ body: { reason: 'stock-taking' } }) },
  queueResume: {},
  jobPause: { thing: 'job', options: () => ({ body: { reason: 'repair' } }) },
  jobResume: { thing: 'job' },
  runLogStream: { thing: 'run', before: 'cancelRun' },
  runWait: { thing: 'run', query: '?waitMs=0' },
  runExplain: { thing: 'run' },
  functionRegister: { options: (n) => ({ body: { jobs: [{ name: `function-${n}` }] } }) },
  workerOpen: { options: () => ({ body: { functions: ['f'], queues: ['q'], slots: 1 } }) },
  workerList: {},
  workerClaim: { thing: 'worker', options: () => ({ body: { max: 1 } }) },
  workerHeartbeat: { thing: 'worker' },
  workerComplete: { thing: 'worker', options: () => ({ body: { ends: [{ ...held, ...end }] } }) },
  workerRelease: { thing: 'worker', options: () => ({ body: { runs: [held] } }) },
  workerLog: { thing: 'worker', options: () => ({ body: { chunks: [{ ...held, ...log }] } }) },
  workerClose: { thing: 'worker' },
  serverGet: {},
  clusterGet: {},
  replanList: {},
}
const names = Object.keys(routes) as RouteName[]
const pathOf = (name: RouteName, id: string) =>
  routes[name].path.replace(':id', id).replace(':queue', 'default')
const someId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

async function prepare(things: Things, { before }: Case): Promise<void> {
  if (before === 'schedule') await t.call('DELETE', `/v1/schedules/${things.schedule}`)
  if (before === 'skip') await t.call('POST', `/v1/schedules/${things.schedule}/skip`)
  if (before === 'cancelRun') await t.call('POST', `/v1/runs/${things.run}/cancel`)
  if (before === 'markTask')
    await t.call('POST', `/v1/workflow-runs/${things.workflowRun}/mark`, { body: markOfA })
  if (before === 'pauseBackfill') await t.call('POST', `/v1/backfills/${things.backfill}/pause`)
  if (before === 'pause') await t.call('POST', `/v1/schedules/${things.schedule}/pause`)
}

/** What of an answer is not as its route says; undefined: nothing. */
function mismatch({ media, response }: Route, { body, headers }: Answer): unknown {
  if (media === undefined) return response?.safeParse(body).error
  const type = String(headers['content-type'])
  return type.includes(media) ? undefined : type
}

describe('each route', () => {
  it.each(names)('%s answers as documented', async (name) => {
    const route: Route = routes[name]
    const things = await makeThings(t.adminKey)
    await prepare(things, cases[name])
    const key = route.scope === 'platform' ? await t.keyFor('acme', ['platform']) : t.adminKey
    const { thing, options, query = '' } = cases[name]
    const path = pathOf(name, thing === undefined ? '' : things[thing]) + query
    const answer = await t.call(route.method, path, { key, ...options?.(made) })
    expect(answer.body?.detail ?? '').toBe('')
    expect(answer.status).toBe(route.status)
    expect(mismatch(route, answer)).toBeUndefined()
  })

  it.each(names)('%s is closed without a key', async (name) => {
    const before = await t.counts()
    for (const headers of [{}, { authorization: 'Basic YTpi' }, { authorization: 'Bearer bfy_nope' }]) {
      const options = { ...cases[name].options?.(made), key: null, headers }
      const answer = await t.call(routes[name].method, pathOf(name, someId), options)
      expect(answer.status).toBe(401)
      expect(answer.body.code).toBe('unauthenticated')
      expect(answer.headers['www-authenticate']).toContain('Bearer')
    }
    expect(await t.counts()).toEqual(before)
  })

  it.each(names)('%s refuses keys whose scope is too small', async (name) => {
    const { scope, method }: Route = routes[name]
    for (const given of scopes) {
      const needed = name === 'keyCreate' ? 'admin' : scope
      if (needed === 'any_key' || scopeAllows([given], needed)) continue
      const key = await t.keyFor('small', [given])
      const before = await t.counts()
      const answer = await t.call(method, pathOf(name, someId), { key, ...cases[name].options?.(made) })
      expect(answer.body).toMatchObject({ status: 403, code: 'forbidden' })
      expect(await t.counts()).toEqual(before)
    }
  })

  it.each(names.filter((name) => cases[name].thing !== undefined))(
    '%s says 404 for foreign and unknown ids',
    async (name) => {
      const foreign = await makeThings(await t.keyFor('others', ['admin']))
      const { thing = 'job', options } = cases[name]
      const before = await t.database.sql('SELECT * FROM belfry.schedule ORDER BY id')
      const counts = await t.counts()
      const answers = [foreign[thing], someId].map((id) =>
        t.call(routes[name].method, pathOf(name, id), options?.(made) ?? {}),
      )
      const [of, unknown] = await Promise.all(answers)
      const none = { status: 404, code: 'not_found' }
      const lost = { status: 409, code: 'session_lost' }
      expect(of?.body).toMatchObject(thing === 'worker' ? lost : none)
      const words = (body: AnswerBody | undefined, id: string) => ({
        ...body,
        instance: '',
        detail: body?.detail.replace(id, ''),
      })
      expect(words(of?.body, foreign[thing])).toEqual(words(unknown?.body, someId))
      expect(await t.counts()).toEqual(counts)
      expect(await t.database.sql('SELECT * FROM belfry.schedule ORDER BY id')).toEqual(before)
    },
  )

  it('lists only what is the tenant’s own', async () => {
    const stranger = await t.keyFor('stranger', ['admin'])
    for (const path of [
      '/v1/jobs',
      '/v1/schedules',
      '/v1/calendars',
      '/v1/pools',
      '/v1/workflows',
      '/v1/workflow-runs',
      '/v1/runs',
      '/v1/runs?state=pending',
      '/v1/runs?state=failed',
    ]) {
      expect((await t.call('GET', path, { key: stranger })).body.items).toEqual([])
    }
    expect((await t.call('GET', '/v1/keys', { key: stranger })).body.items).toHaveLength(1)
  })
})

describe('around the routes', () => {
  it('every path of the router has a scope or is one of two public ones', async () => {
    const open: string[] = []
    for (const path of ['/', '/v1/openapi.json', ...names.map((name) => pathOf(name, someId))]) {
      const answer = await t.call('GET', path, { key: null })
      if (answer.status === 200) open.push(path)
    }
    expect(open.sort()).toEqual(['/', '/v1/openapi.json'])
  })

  it('says 404 with what was meant, 405 with what is taken, both as problems', async () => {
    const unknown = await t.call('GET', '/v1/schedule', { key: null })
    expect(unknown.body).toMatchObject({
      code: 'not_found',
      detail: expect.stringContaining('/v1/schedules') as string,
    })
    expect(unknown.headers['content-type']).toBe('application/problem+json; charset=utf-8')
    const wrong = await t.call('PUT', '/v1/jobs')
    expect(wrong.body).toMatchObject({ code: 'method_not_allowed', status: 405 })
    expect(wrong.headers['allow']).toBe('GET, HEAD, POST')
    for (const path of ['/v1/jobs/', '/v1//jobs', '/V1/jobs', '/v1/configs', '/configs']) {
      expect([400, 404]).toContain((await t.call('GET', path)).status)
      expect((await t.call('GET', path, { key: null })).status).toBeGreaterThanOrEqual(400)
    }
  })

  it('echoes a sane request id, makes one otherwise, and sends security headers', async () => {
    const echoed = await t.call('GET', '/v1/whoami', { key: null, headers: { 'x-request-id': 'abc-1.2' } })
    expect(echoed.headers['x-request-id']).toBe('abc-1.2')
    expect(echoed.body.instance).toBe('abc-1.2')
    const made = await t.call('GET', '/v1/whoami', { headers: { 'x-request-id': 'a b"<script>' } })
    expect(made.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(made.headers['x-content-type-options']).toBe('nosniff')
    expect(made.headers['content-security-policy']).toContain("default-src 'none'")
    expect(made.headers['cache-control']).toBe('no-store')
  })

  it('every answered problem is one of the table', async () => {
    const answer = await t.call('GET', `/v1/jobs/${someId}`)
    const { status, title, retryable } = errorTable.not_found
    expect(answer.body).toMatchObject({
      type: 'https://belfry.dev/errors#not_found',
      title,
      status,
      retryable,
    })
  })
})

describe('an id that is too long', () => {
  it.each(['/v1/jobs/ID', '/v1/schedules/ID/occurrences', '/v1/runs/ID'])(
    '%s: an id of 5000 characters is not repeated',
    async (path) => {
      const { status, body } = await t.call('GET', path.replace('ID', 'x'.repeat(5_000)))
      expect([status, body.code, body.errors.map(({ pointer }) => pointer)]).toEqual([
        400,
        'invalid_request',
        ['/params/id'],
      ])
      expect(body.errors[0]?.message).toContain('ids look like')
      expect(JSON.stringify(body).length).toBeLessThan(1_000)
    },
  )
})
