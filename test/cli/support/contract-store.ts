// What the test server of the contract keeps: jobs, schedules, runs, keys, tenants in memory, answered in
// the API's shapes. Runs do not move by themselves: a test says how each one goes.
import {
  BelfryError,
  type Attempt,
  type Backfill,
  type Calendar,
  type Job,
  type Key,
  type Occurrence,
  type RouteName,
  type Run,
  type Schedule,
  type Tenant,
  type Workflow,
} from '@belfry/contract'
import { newBackfill, somePreview } from './contract-backfill.ts'
import { calendarSummary, changedCalendar, newCalendar, someDays } from './contract-calendar.ts'
import { newKey } from './contract-key.ts'
import { newSchedule } from './contract-schedule.ts'
import { newWorkflow, newWorkflowRun, workflowSummary } from './contract-workflow.ts'

type Asked = {
  readonly id: string
  readonly body: unknown
  readonly query: Readonly<Record<string, unknown>>
}
type Fields = Record<string, unknown>

const madeAt = '2026-11-29T12:00:00.000Z'

type Tables = {
  readonly jobs: Map<string, Job>
  readonly schedules: Map<string, Schedule>
  readonly runs: Map<string, Run>
  readonly keys: Map<string, Key>
  readonly tenants: Map<string, Tenant>
  readonly backfills: Map<string, Backfill>
  readonly calendars: Map<string, Calendar>
  readonly workflows: Map<string, Workflow>
  readonly occurrences: Occurrence[]
}

export type Store = Tables & {
  answer(name: RouteName, asked: Asked): unknown
  etagOf(data: unknown): string | undefined
  addJob(name: string, more?: Partial<Job>): Job
  addSchedule(name: string, more?: Partial<Schedule>): Schedule
  addRun(more?: Partial<Run>): Run
  addKey(name: string, more?: Partial<Key>): Key
  addBackfill(more?: Partial<Backfill>): Backfill
  addCalendar(name: string, more?: Partial<Calendar>): Calendar
  addWorkflow(name: string): Workflow
}

let lastId = 0
export function nextId(): string {
  lastId += 1
  return `019ad0c1-0000-7000-8000-${lastId.toString(16).padStart(12, '0')}`
}

export const attempt = (more: Partial<Attempt> = {}): Attempt => ({
  number: 1,
  outcome: 'succeeded',
  startedAt: '2026-11-29T12:00:01.000Z',
  endedAt: '2026-11-29T12:00:01.120Z',
  durationMs: 120,
  error: null,
  httpStatus: 200,
  response: 'ok',
  responseTruncated: false,
  responseCapBytes: 16_384,
  result: null,
  retryAt: null,
  workerId: null,
  leaseEpoch: 1,
  progress: null,
  ...more,
})

const job = (name: string, more: Partial<Job>): Job => ({
  id: nextId(),
  name,
  description: '',
  version: 1,
  handler: { kind: 'http', url: 'https://example.com/hook', method: 'POST', headers: {} },
  retry: { maxAttempts: 3, backoff: 'exponential', baseMs: 1_000, capMs: 300_000, jitter: 'full' },
  attemptTimeoutMs: 60_000,
  delivery: 'at_least_once',
  queue: 'default',
  priority: 0,
  createdAt: madeAt,
  updatedAt: madeAt,
  ...more,
})

const schedule = (name: string, more: Partial<Schedule>): Schedule =>
  newSchedule({ id: nextId(), jobId: nextId(), name, job: name, ...more })

const run = (more: Partial<Run>): Run => {
  const id = nextId()
  return {
    id,
    jobId: nextId(),
    job: 'report',
    jobVersion: 1,
    scheduleId: null,
    scheduledFor: null,
    source: 'manual',
    state: 'pending',
    reason: null,
    queue: 'default',
    priority: 0,
    delivery: 'at_least_once',
    attempts: 0,
    maxAttempts: 3,
    idempotencyKey: id,
    createdAt: madeAt,
    dueAt: madeAt,
    nextAttemptAt: null,
    startedAt: null,
    finishedAt: null,
    lateMs: null,
    cancelRequested: false,
    input: null,
    attemptList: [],
    attemptsTotal: more.attemptList?.length ?? 0,
    ...more,
  }
}

function page<T>(items: readonly T[], query: Readonly<Record<string, unknown>>) {
  const limit = Number(query['limit'])
  const start = query['cursor'] === undefined ? 0 : Number(query['cursor'])
  const more = start + limit < items.length
  return { items: items.slice(start, start + limit), nextCursor: more ? String(start + limit) : null }
}

function need<T>(found: T | undefined, what: string): T {
  if (found === undefined) throw new BelfryError('not_found', `There is no such ${what}; check the id.`)
  return found
}

function withoutAttempts({ input: _input, attemptList: _attempts, attemptsTotal: _total, ...summary }: Run) {
  return summary
}

function withoutHeaders({ handler, ...job }: Job) {
  if (handler.kind === 'function') return { ...job, handler }
  const { kind, url, method } = handler
  return { ...job, handler: { kind, url, method } }
}

function withoutInput({ input: _input, upcoming: _upcoming, warnings: _warnings, ...schedule }: Schedule) {
  return schedule
}

function put<T extends { id: string }>(map: Map<string, T>, item: T, query: Readonly<Fields> = {}): T {
  if (query['dryRun'] !== true) map.set(item.id, item)
  return item
}

function checkFree(map: ReadonlyMap<string, { name: string }>, name: string, what: string): void {
  if (![...map.values()].some((item) => item.name === name)) return
  throw new BelfryError('name_taken', `There is a ${what} "${name}" already; choose another name.`, {
    errors: [{ pointer: '/name', message: 'is taken' }],
  })
}

function matching<T extends object>(
  map: ReadonlyMap<string, T>,
  query: Readonly<Fields>,
  ...names: string[]
): T[] {
  return [...map.values()].filter((item) =>
    names.every((name) => query[name] === undefined || query[name] === (item as Fields)[name]),
  )
}

const said = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

function change<T extends { id: string }>(
  map: Map<string, T>,
  asked: Asked,
  what: string,
  fields: Fields,
): T {
  return put(map, { ...need(map.get(asked.id), what), ...said(fields) }, asked.query)
}

function remove(map: Map<string, unknown>, asked: Asked, what: string): undefined {
  need(map.get(asked.id), what)
  if (asked.query['dryRun'] !== true) map.delete(asked.id)
}

type Answers = { readonly [N in RouteName]?: (asked: Asked & { readonly fields: Fields }) => unknown }

const accessAnswers = ({ tenants, keys }: Tables): Answers => ({
  whoami: () => ({
    tenant: { id: nextId(), name: 'dev', createdAt: madeAt },
    keyId: nextId(),
    scopes: ['admin'],
  }),
  tenantCreate: ({ fields, query }) => {
    checkFree(tenants, String(fields['name']), 'tenant')
    return put(tenants, { id: nextId(), name: String(fields['name']), createdAt: madeAt }, query)
  },
  tenantList: ({ query }) => page([...tenants.values()], query),
  keyCreate: ({ fields, query }) => {
    const made = put(
      keys,
      newKey(nextId(), String(fields['name']), { scopes: fields['scopes'] as Key['scopes'] }),
      query,
    )
    return { ...made, secret: query['dryRun'] === true ? null : 'blf_secret_zyxwvutsrqponmlkjihgfedcba' }
  },
  keyList: ({ query }) => page([...keys.values()], query),
  keyRevoke: (asked) => change(keys, asked, 'key', { revokedAt: madeAt }),
})

const jobAnswers = ({ jobs }: Tables): Answers => ({
  jobCreate: ({ fields, query }) => {
    checkFree(jobs, String(fields['name']), 'job')
    return put(jobs, job(String(fields['name']), fields), query)
  },
  jobList: ({ query }) => page(matching(jobs, query, 'name').map(withoutHeaders), query),
  jobGet: ({ id }) => need(jobs.get(id), 'job'),
  jobUpdate: (asked) => {
    const before = need(jobs.get(asked.id), 'job')
    const retry = { ...before.retry, ...(asked.fields['retry'] as Fields | undefined) }
    return change(jobs, asked, 'job', { ...asked.fields, retry, version: before.version + 1 })
  },
  jobDelete: (asked) => remove(jobs, asked, 'job'),
})

const fieldsOfJob = ['handler', 'retry', 'attemptTimeoutMs', 'delivery', 'queue', 'ifPast']

const scheduleAnswers = ({ schedules, runs, occurrences, backfills }: Tables): Answers => ({
  scheduleCreate: ({ fields, query }) => {
    const name = String(fields['name'])
    checkFree(schedules, name, 'schedule')
    const own = Object.entries(said(fields)).filter(([field]) => !fieldsOfJob.includes(field))
    const given = Object.fromEntries(own)
    return put(schedules, schedule(name, { every: null, job: name, ...given }), query)
  },
  scheduleList: ({ query }) =>
    page(matching(schedules, query, 'name', 'state', 'jobId').map(withoutInput), query),
  scheduleGet: ({ id }) => need(schedules.get(id), 'schedule'),
  scheduleUpdate: (asked) => {
    const before = need(schedules.get(asked.id), 'schedule')
    const catchUp = { ...before.catchUp, ...(asked.fields['catchUp'] as Fields | undefined) }
    const { gap, overlap } = { ...before.dst, ...(asked.fields['dst'] as Fields | undefined) }
    const dst = said({ gap: gap ?? undefined, overlap: overlap ?? undefined })
    const fields: Fields = { ...asked.fields, catchUp, dst: Object.keys(dst).length === 0 ? null : dst }
    delete fields['ifPast']
    return change(schedules, asked, 'schedule', fields)
  },
  scheduleDelete: (asked) => remove(schedules, asked, 'schedule'),
  schedulePause: (asked) => {
    const fields = { state: 'paused', pausedReason: asked.fields['reason'], nextAt: null }
    return change(schedules, asked, 'schedule', fields)
  },
  scheduleResume: (asked) => {
    const { backfillFrom } = asked.fields
    if (typeof backfillFrom === 'string' && asked.query['dryRun'] !== true) {
      const { id, name } = need(schedules.get(asked.id), 'schedule')
      const made = newBackfill({ id: nextId(), scheduleId: id, schedule: name, from: backfillFrom })
      backfills.set(made.id, made)
    }
    return change(schedules, asked, 'schedule', { state: 'active', pausedReason: null })
  },
  scheduleSkip: (asked) => {
    const { upcoming } = need(schedules.get(asked.id), 'schedule')
    const last = upcoming[Number(asked.fields['count']) - 1] ?? madeAt
    const sleepUntil = new Date(Date.parse(last) + 1).toISOString()
    return change(schedules, asked, 'schedule', { sleepUntil, sleepReason: asked.fields['reason'] })
  },
  scheduleSleep: (asked) => {
    const { until, reason } = asked.fields
    return change(schedules, asked, 'schedule', { sleepUntil: until, sleepReason: reason })
  },
  scheduleWake: (asked) => change(schedules, asked, 'schedule', { sleepUntil: null, sleepReason: null }),
  scheduleTrigger: ({ id, fields, query }) => {
    const found = need(schedules.get(id), 'schedule')
    const scheduledFor = (fields['scheduledFor'] ?? null) as Run['scheduledFor']
    const parts = { job: found.job, jobId: found.jobId, scheduleId: id, scheduledFor }
    return put(runs, run({ ...parts, source: 'trigger' }), query)
  },
  occurrenceList: ({ id, query }) => {
    const wanted = query['outcome'] ?? undefined
    const fits = (item: Occurrence) => item.scheduleId === id && (wanted ?? item.outcome) === item.outcome
    return page(occurrences.filter(fits), query)
  },
})

const runAnswers = ({ jobs, runs }: Tables): Answers => ({
  runCreate: ({ fields, query }) => {
    const found = [...jobs.values()].find((item) => item.name === fields['job'])
    const made = need(found, `job "${String(fields['job'])}"`)
    const dueAt = typeof fields['runAt'] === 'string' ? fields['runAt'] : madeAt
    return put(runs, run({ job: made.name, jobId: made.id, dueAt }), query)
  },
  runList: ({ query }) => {
    const states = query['state'] as string[] | undefined
    const items = matching(runs, query, 'jobId', 'scheduleId')
    return page(items.filter((item) => states?.includes(item.state) ?? true).map(withoutAttempts), query)
  },
  runGet: ({ id }) => need(runs.get(id), 'run'),
  attemptList: ({ id, query }) => page(need(runs.get(id), 'run').attemptList.toReversed(), query),
  runCancel: (asked) => change(runs, asked, 'run', { state: 'canceled', reason: 'canceled_by_request' }),
})

const backfillAnswers = ({ backfills, schedules }: Tables): Answers => ({
  backfillCreate: ({ id, fields, query }) => {
    const { name } = need(schedules.get(id), 'schedule')
    const preview = query['dryRun'] === true ? somePreview : null
    return put(
      backfills,
      newBackfill({ id: nextId(), scheduleId: id, schedule: name, ...fields, preview }),
      query,
    )
  },
  backfillList: ({ query }) => {
    const withoutMore = ({ input: _input, preview: _preview, ...summary }: Backfill) => summary
    return page(matching(backfills, query, 'state', 'scheduleId').map(withoutMore), query)
  },
  backfillGet: ({ id }) => need(backfills.get(id), 'backfill'),
  backfillPause: (asked) => change(backfills, asked, 'backfill', { ...asked.fields, state: 'paused' }),
  backfillResume: (asked) => change(backfills, asked, 'backfill', { state: 'running', reason: null }),
  backfillCancel: (asked) => change(backfills, asked, 'backfill', { state: 'canceled' }),
})

const calendarAnswers = ({ calendars }: Tables): Answers => ({
  calendarCreate: ({ fields, query }) => {
    const name = String(fields['name'])
    checkFree(calendars, name, 'calendar')
    return put(calendars, newCalendar({ ...fields, id: nextId(), name }), query)
  },
  calendarList: ({ query }) => page(matching(calendars, query, 'name').map(calendarSummary), query),
  calendarGet: ({ id }) => need(calendars.get(id), 'calendar'),
  calendarDays: ({ id }) => need(calendars.get(id), 'calendar') && someDays,
  calendarUpdate: ({ id, fields, query }) =>
    put(calendars, changedCalendar(need(calendars.get(id), 'calendar'), fields), query),
  calendarDelete: (asked) => remove(calendars, asked, 'calendar'),
})

const workflowAnswers = ({ workflows }: Tables): Answers => ({
  workflowApply: ({ body, query }) => {
    return { ...put(workflows, newWorkflow(nextId(), body), query), outcome: 'created' }
  },
  workflowList: ({ query }) => page(matching(workflows, query, 'name').map(workflowSummary), query),
  workflowDelete: (asked) => remove(workflows, asked, 'workflow'),
  workflowRunCreate: ({ fields }) => newWorkflowRun(nextId(), String(fields['workflow'])),
  workflowRunCancel: ({ id }) => newWorkflowRun(id, 'flow'),
})

export function createStore(): Store {
  const tables: Tables = {
    jobs: new Map(),
    schedules: new Map(),
    runs: new Map(),
    keys: new Map(),
    tenants: new Map(),
    backfills: new Map(),
    calendars: new Map(),
    workflows: new Map(),
    occurrences: [],
  }
  const answers: Answers = {
    ...accessAnswers(tables),
    ...jobAnswers(tables),
    ...scheduleAnswers(tables),
    ...runAnswers(tables),
    ...backfillAnswers(tables),
    ...calendarAnswers(tables),
    ...workflowAnswers(tables),
  }
  return {
    ...tables,
    answer: (name, asked) => {
      const answer = answers[name]
      if (answer === undefined) throw new Error(`the test server has no answer for ${name}; add one`)
      return answer({ ...asked, fields: (asked.body ?? {}) as Fields })
    },
    etagOf: (data) => {
      const version = (data as Fields | undefined)?.['version']
      return typeof version === 'number' ? `"${version}"` : undefined
    },
    addJob: (name, more = {}) => put(tables.jobs, job(name, more)),
    addSchedule: (name, more = {}) => put(tables.schedules, schedule(name, more)),
    addRun: (more = {}) => put(tables.runs, run(more)),
    addKey: (name, more = {}) => put(tables.keys, newKey(nextId(), name, more)),
    addCalendar: (name, more = {}) => put(tables.calendars, newCalendar({ id: nextId(), name, ...more })),
    addWorkflow: (name) =>
      put(tables.workflows, newWorkflow(nextId(), { name, tasks: [{ id: 'a', job: 'report' }] })),
    addBackfill: ({ id = nextId(), scheduleId = nextId(), ...more } = {}) =>
      put(tables.backfills, newBackfill({ id, scheduleId, schedule: 'nightly', ...more })),
  }
}
