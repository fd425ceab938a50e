// What the test server of the contract keeps: jobs, schedules, runs, keys, tenants in memory, answered in
// the API's shapes. Runs do not move by themselves: a test says how each one goes.
import type {
  Backfill,
  Calendar,
  Job,
  Key,
  Occurrence,
  Pool,
  RouteName,
  Run,
  Schedule,
  Workflow,
} from '@belfry/contract'
import { handlerSummary } from '../../../packages/server/src/http/handler-views.ts'
import { newBackfill, somePreview } from './contract-backfill.ts'
import * as letters from './contract-dead-letter.ts'
import { newPool, queueOf, queueSummaryOf, tenantLimitOf } from './contract-limits.ts'
import { calendarSummary, changedCalendar, newCalendar, someDays } from './contract-calendar.ts'
import { madeAt, newJob, newKey, newRun, nextId } from './contract-records.ts'
import { newSchedule } from './contract-schedule.ts'
import { accountAnswers } from './contract-accounts.ts'
import { peopleAnswers } from './contract-people.ts'
import { containerAnswers } from './contract-containers.ts'
import { secretAnswers } from './contract-secrets.ts'
import {
  type Answers,
  type Asked,
  change,
  checkFree,
  type Fields,
  matching,
  need,
  page,
  put,
  remove,
  said,
  type Tables,
} from './contract-tables.ts'
import { newWorkflow, workflowAnswers } from './contract-workflow.ts'

export type Store = Tables & {
  answer(name: RouteName, asked: Asked): unknown
  etagOf(data: unknown): string | undefined
  addJob(name: string, more?: Partial<Job>): Job
  addSchedule(name: string, more?: Partial<Schedule>): Schedule
  addRun(more?: Partial<Run>): Run
  addKey(name: string, more?: Partial<Key>): Key
  addBackfill(more?: Partial<Backfill>): Backfill
  addCalendar(name: string, more?: Partial<Calendar>): Calendar
  addPool(name: string, more?: Partial<Pool>): Pool
  addWorkflow(name: string): Workflow
}

const schedule = (name: string, more: Partial<Schedule>): Schedule =>
  newSchedule({ id: nextId(), jobId: nextId(), name, job: name, ...more })

/** As lists show it. */
function runSummary({
  input: _input,
  attemptList: _attempts,
  attemptsTotal: _total,
  timeline: _timeline,
  dependsOn: _dependsOn,
  rule: _rule,
  cancelReason: _reason,
  replayOf: _of,
  replayedAs: _as,
  ...summary
}: Run) {
  return summary
}

function withoutHeaders({ handler, ...job }: Job) {
  return { ...job, handler: handlerSummary(handler) }
}

function withoutInput({ input: _input, upcoming: _upcoming, warnings: _warnings, ...schedule }: Schedule) {
  return schedule
}

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
      newKey(String(fields['name']), { scopes: fields['scopes'] as Key['scopes'] }),
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
    return put(jobs, newJob(String(fields['name']), fields), query)
  },
  jobList: ({ query }) => page(matching(jobs, query, 'name').map(withoutHeaders), query),
  jobGet: ({ id }) => need(jobs.get(id), 'job'),
  jobUpdate: (asked) => {
    const before = need(jobs.get(asked.id), 'job')
    const given: Partial<Job['retry']> = asked.fields['retry'] ?? {}
    const leavesList = given.backoff !== undefined && given.backoff !== 'list'
    const retry = { ...before.retry, ...(leavesList ? { delaysMs: [] } : {}), ...said(given) }
    return change(jobs, asked, 'job', { ...asked.fields, retry, version: before.version + 1 })
  },
  jobDelete: (asked) => remove(jobs, asked, 'job'),
  jobPause: (asked) =>
    change(jobs, asked, 'job', { paused: { reason: asked.fields['reason'], since: madeAt } }),
  jobResume: (asked) => change(jobs, asked, 'job', { paused: null }),
})

const fieldsOfJob = [
  'handler',
  'retry',
  'attemptTimeoutMs',
  'runDeadlineMs',
  'startWithinMs',
  'delivery',
  'queue',
  'ifPast',
]

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
    const parts = { job: found.job ?? '', jobId: found.jobId ?? '', scheduleId: id, scheduledFor }
    return { ...put(runs, newRun({ ...parts, source: 'trigger' }), query), ...firstAsked }
  },
  occurrenceList: ({ id, query }) => {
    const wanted = query['outcome'] ?? undefined
    const fits = (item: Occurrence) => item.scheduleId === id && (wanted ?? item.outcome) === item.outcome
    return page(occurrences.filter(fits), query)
  },
})

/** What the answer to a request says of it besides its run. */
const firstAsked = { duplicate: false, duplicateOf: null, gathered: null }

function askedRun(
  { jobs, runs }: Pick<Tables, 'jobs' | 'runs'>,
  fields: Fields,
  query: Readonly<Fields>,
): Run {
  const found = [...jobs.values()].find((item) => item.name === fields['job'])
  const made = need(found, `job "${String(fields['job'])}"`)
  const dueAt = typeof fields['runAt'] === 'string' ? fields['runAt'] : madeAt
  const limit = (field: 'startWithinMs' | 'runDeadlineMs'): string | null => {
    const ms = fields[field] === undefined ? made[field] : fields[field]
    return typeof ms === 'number' ? new Date(Date.parse(dueAt) + ms).toISOString() : null
  }
  const limits = { startBy: limit('startWithinMs'), runDeadline: limit('runDeadlineMs') }
  return put(runs, newRun({ job: made.name, jobId: made.id, dueAt, ...limits }), query)
}

const runAnswers = ({ jobs, runs }: Tables): Answers => ({
  runCreate: ({ fields, query }) => ({ ...askedRun({ jobs, runs }, fields, query), ...firstAsked }),
  runBatch: ({ fields, query }) => {
    const results = (fields['items'] as Fields[]).map((item) => {
      const { id, job: name, dueAt } = askedRun({ jobs, runs }, item, query)
      return { run: { id, job: name, dueAt, ...firstAsked }, error: null }
    })
    return { results, created: results.length, duplicates: 0, gathered: 0, refused: 0 }
  },
  runList: ({ query }) => {
    const states = query['state'] as string[] | undefined
    const items = matching(runs, query, 'jobId', 'scheduleId')
    return page(items.filter((item) => states?.includes(item.state) ?? true).map(runSummary), query)
  },
  runGet: ({ id }) => need(runs.get(id), 'run'),
  // it does not wait, as a server that is about to stop
  runWait: ({ id }) => need(runs.get(id), 'run'),
  attemptList: ({ id, query }) => page(need(runs.get(id), 'run').attemptList.toReversed(), query),
  runCancel: (asked) => change(runs, asked, 'run', { state: 'canceled', reason: 'canceled_by_request' }),
  runCancelMany: () => letters.noneCanceled,
  deadLetterList: ({ query }) => page([...runs.values()].map(letters.deadLetterOf), query),
  deadLetterGroups: () => letters.noGroups,
  deadLetterGet: ({ id }) => {
    const found = need(runs.get(id), 'dead letter')
    return { ...letters.deadLetterOf(found), run: found }
  },
  deadLetterReplay: ({ id }) => letters.replayOf(need(runs.get(id), 'dead letter')),
  deadLetterReplayMany: () => letters.noneReplayed,
  deadLetterDelete: ({ id }) => letters.deadLetterOf(need(runs.get(id), 'dead letter')),
  deadLetterDeleteMany: () => letters.noneDeleted,
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

const limitAnswers = ({ pools }: Tables): Answers => ({
  poolCreate: ({ fields, query }) => {
    const name = String(fields['name'])
    checkFree(pools, name, 'pool')
    return put(pools, newPool({ ...fields, id: nextId(), name }), query)
  },
  poolList: ({ query }) => page(matching(pools, query, 'name'), query),
  poolGet: ({ id }) => need(pools.get(id), 'pool'),
  poolUpdate: (asked) => change(pools, asked, 'pool', asked.fields),
  poolDelete: (asked) => remove(pools, asked, 'pool'),
  tenantLimitGet: () => tenantLimitOf({ runLimit: 50 }),
  tenantLimitSet: ({ fields }) => tenantLimitOf({ runLimit: fields['runLimit'] as number | null }),
  queueList: () => ({ items: [queueSummaryOf('default', null)] }),
  queueGet: ({ id }) => queueOf(id, null),
  queuePause: ({ id, fields }) => queueSummaryOf(id, String(fields['reason'])),
  queueResume: ({ id }) => queueSummaryOf(id, null),
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
    pools: new Map(),
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
    ...limitAnswers(tables),
    ...containerAnswers,
    ...accountAnswers,
    ...peopleAnswers,
    ...secretAnswers,
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
    addJob: (name, more = {}) => put(tables.jobs, newJob(name, more)),
    addSchedule: (name, more = {}) => put(tables.schedules, schedule(name, more)),
    addRun: (more = {}) => put(tables.runs, newRun(more)),
    addKey: (name, more = {}) => put(tables.keys, newKey(name, more)),
    addCalendar: (name, more = {}) => put(tables.calendars, newCalendar({ id: nextId(), name, ...more })),
    addPool: (name, more = {}) => put(tables.pools, newPool({ id: nextId(), name, ...more })),
    addBackfill: (more = {}) =>
      put(
        tables.backfills,
        newBackfill({ id: nextId(), scheduleId: nextId(), schedule: 'nightly', ...more }),
      ),
    addWorkflow: (name) =>
      put(tables.workflows, newWorkflow(nextId(), { name, tasks: [{ id: 'a', job: 'report' }] })),
  }
}
