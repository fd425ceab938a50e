// One call for each route of the contract, with the things that it takes: what tests that walk all routes
// send. The table is complete by its type, so a new route cannot be forgotten.
import { type RouteName, routes } from '@belfry/contract'
import { type CallOptions, httpJob, type TestApi } from './api.ts'
import { playWorker } from './played-worker.ts'

export type Thing =
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
  | 'serviceAccount'
  | 'member'
  | 'personSession'
  | 'secret'
export type Things = Record<Thing, string>
let made = 0
const secretValue = 'bright-otter-kettle-93'

/** A number that no case has used. */
export const nextNumber = (): number => made++

/** One of each, of the tenant of `key`. */
export async function makeThings(t: TestApi, key: string): Promise<Things> {
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
  await makeLetter(t, failed.body.id)
  const pool = await t.call('POST', '/v1/pools', { key, body: { name: `p-${n}`, slots: 2 } })
  const account = await t.call('POST', '/v1/service-accounts', {
    key,
    body: { name: `sa-${n}`, role: 'viewer' },
  })
  const member = await t.call('POST', '/v1/members', {
    key,
    body: { email: `m-${n}@example.com`, role: 'viewer' },
  })
  const secret = await t.call('POST', '/v1/secrets', {
    key,
    body: { name: `secret-${n}`, value: secretValue },
  })
  const others = {
    secret: secret.body.id,
    member: member.body.id,
    personSession: await makePersonSession(t, key, n),
    serviceAccount: account.body.id,
    calendar: calendar.body.id,
    worker: worker.body.id,
    letter: failed.body.id,
    pool: pool.body.id,
  }
  return { ...ids, backfill: backfill.body.id, ...others, ...(await makeWorkflow(t, key, n)) }
}

/** Somebody who is invited and comes in. */
async function makePersonSession(t: TestApi, key: string, n: number): Promise<string> {
  const body = { email: `s-${n}@example.com`, role: 'viewer' }
  const { inviteToken: token } = (await t.call('POST', '/v1/members', { key, body })).body
  const accepted = await t.call('POST', '/v1/invites/accept', {
    key: null,
    body: { token, password: 'gull-harbour-41-lantern', answer: 'token' },
  })
  return accepted.body.session.id
}

async function makeWorkflow(
  t: TestApi,
  key: string,
  n: number,
): Promise<Pick<Things, 'workflow' | 'workflowRun'>> {
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
async function makeLetter(t: TestApi, id: string): Promise<void> {
  await playWorker(t.database).claim(id)
  await playWorker(t.database).end(id, { outcome: 'failed', state: 'failed', code: 'http_500' })
  await t.database.sql(
    `INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
     SELECT id, tenant_id, job_id, queue, 'http_500', '0123456789abcdef', date_trunc('milliseconds', now())
     FROM belfry.run WHERE id = $1`,
    [id],
  )
}

export type Case = {
  readonly thing?: keyof Things
  readonly before?: string
  readonly query?: string
  readonly options?: (n: number) => CallOptions
  /** The test that shows how it answers, where more than one call is needed for it. */
  readonly elsewhere?: string
}

const held = { runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', leaseEpoch: 1 }
const end = { outcome: 'succeeded', durationMs: 5 }
const log = { firstLine: 0, lines: [{ at: '2026-11-29T12:00:00Z', level: 'info', message: 'x' }] }

const markOfA = { tasks: ['a'], state: 'skipped', reason: 'by hand' }

export const cases: Readonly<Record<RouteName, Case>> = {
  whoami: {},
  auditList: {},
  auditStatus: {},
  auditExport: {},
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
  secretCreate: { options: (n) => ({ body: { name: `kept-${n}`, value: secretValue } }) },
  secretList: {},
  secretGet: { thing: 'secret' },
  secretUpdate: { thing: 'secret', options: () => ({ body: { description: 'of billing' } }) },
  secretRotate: { thing: 'secret', options: () => ({ body: { value: 'quiet-lemon-anchor-17' } }) },
  secretRestore: { thing: 'secret', before: 'rotate', options: () => ({ body: { version: 1 } }) },
  secretDelete: { thing: 'secret' },
  secretGrant: { thing: 'secret', options: () => ({ body: { job: 'job-0', anyTarget: true } }) },
  secretRevoke: { thing: 'secret', before: 'grant', options: () => ({ body: { job: 'job-0' } }) },
  secretRewrap: {},
  containerPolicyGet: {},
  tenantContainerPolicyGet: {},
  tenantContainerPolicyUpdate: { options: () => ({ body: { maxPids: 32 } }) },
  quotaList: {},
  tenantQuotaList: {},
  tenantQuotaUpdate: { options: () => ({ body: { jobs: 100 } }) },
  callbackReport: {
    elsewhere: 'test/http/callbacks.test.ts',
    options: () => ({ body: { action: 'heartbeat' } }),
  },
  lambdaGet: {},
  serverGet: {},
  serviceAccountCreate: { options: (n) => ({ body: { name: `account-${n}`, role: 'worker' } }) },
  serviceAccountList: {},
  serviceAccountGet: { thing: 'serviceAccount' },
  serviceAccountUpdate: { thing: 'serviceAccount', options: () => ({ body: { disabled: true } }) },
  memberCreate: { options: (n) => ({ body: { email: `new-${n}@example.com`, role: 'viewer' } }) },
  memberList: {},
  memberGet: { thing: 'member' },
  memberUpdate: { thing: 'member', options: () => ({ body: { name: 'Ada' } }) },
  memberInvite: { thing: 'member' },
  memberDelete: { thing: 'member' },
  signInWays: {},
  signIn: { elsewhere: 'test/http/people.test.ts' },
  inviteAccept: { elsewhere: 'test/http/people.test.ts' },
  oidcStart: { elsewhere: 'test/http/oidc.test.ts' },
  oidcCallback: { elsewhere: 'test/http/oidc.test.ts' },
  personSessionList: { elsewhere: 'test/http/people.test.ts' },
  personSessionRevoke: { thing: 'personSession' },
  signOut: { elsewhere: 'test/http/people.test.ts' },
  passwordChange: { elsewhere: 'test/http/people.test.ts' },
  clusterGet: {},
  replanList: {},
}
export const routeNames = Object.keys(routes) as RouteName[]
export const pathOf = (name: RouteName, id: string) =>
  routes[name].path
    .replace(/:(?:id|runId)\b/, id)
    .replace(':queue', 'default')
    .replace(':tenant', 'acme')
export const someId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

export async function prepare(t: TestApi, things: Things, { before }: Case): Promise<void> {
  if (before === 'schedule') await t.call('DELETE', `/v1/schedules/${things.schedule}`)
  if (before === 'skip') await t.call('POST', `/v1/schedules/${things.schedule}/skip`)
  if (before === 'rotate')
    await t.call('POST', `/v1/secrets/${things.secret}/rotate`, { body: { value: 'quiet-lemon-anchor-17' } })
  if (before === 'grant')
    await t.call('POST', `/v1/secrets/${things.secret}/grants`, {
      body: { job: 'job-0', anyTarget: true },
    })
  if (before === 'cancelRun') await t.call('POST', `/v1/runs/${things.run}/cancel`)
  if (before === 'markTask')
    await t.call('POST', `/v1/workflow-runs/${things.workflowRun}/mark`, { body: markOfA })
  if (before === 'pauseBackfill') await t.call('POST', `/v1/backfills/${things.backfill}/pause`)
  if (before === 'pause') await t.call('POST', `/v1/schedules/${things.schedule}/pause`)
}
