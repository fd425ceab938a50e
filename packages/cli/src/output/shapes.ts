/**
 * How each kind of thing of the API looks to people:
 * columns of its list, fields of one in full.
 */
import type {
  Attempt,
  Job,
  JobSummary,
  Key,
  Occurrence,
  Run,
  RunSummary,
  Schedule,
  ScheduleSummary,
  Tenant,
  WorkerView,
} from '@belfry/contract'
import { reasonWords } from '@belfry/contract'
import { toneOf } from './paint.ts'
import { jobLimitFields } from './limit-shapes.ts'
import { httpFields } from './http-fields.ts'
import type { Shape } from './printer.ts'
import type { Cell } from './table.ts'
import { plain } from './text.ts'
import type { Clock } from './times.ts'
import { timelineOf } from './timeline.ts'
import { durationWords, timeWithDistance, timeWords } from './times.ts'

const state = (text: string, reason: string | null = null): Cell => ({
  text: reason === null ? text : `${text} (${reason})`,
  tone: toneOf(text),
})
const maybeTime = (instant: string | null, clock: Clock): string =>
  instant === null ? '-' : timeWithDistance(instant, clock)

/** "POST https://example.com/hook", "function mail.send", "container registry.example.com/app:1". */
export function targetWords({ handler }: Pick<JobSummary, 'handler'>): string {
  switch (handler.kind) {
    case 'http':
      return `${handler.method} ${handler.url}`
    case 'function':
      return `function ${handler.name}`
    case 'container':
      return `container ${handler.image}`
    case 'lambda':
      return `lambda ${handler.functionArn}`
    default:
      return handler satisfies never
  }
}

export const jobSummaryShape: Shape<JobSummary> = {
  name: (job) => job.name,
  columns: [
    { title: 'NAME', cell: (job) => job.name, flexible: true },
    { title: 'TARGET', cell: targetWords, flexible: true },
    { title: 'QUEUE', cell: (job) => job.queue, flexible: true },
    { title: 'DELIVERY', cell: (job) => job.delivery },
    { title: 'ATTEMPTS', cell: (job) => String(job.retry.maxAttempts), align: 'right' },
    { title: 'VERSION', cell: (job) => String(job.version), align: 'right' },
  ],
  fields: () => [],
}

export const jobShape: Shape<Job> = {
  ...jobSummaryShape,
  fields: (job, clock) => [
    ['Name', job.name],
    ['Id', job.id],
    ['Description', job.description],
    ['Version', String(job.version)],
    ['Target', targetWords(job)],
    ...httpFields(job.handler),
    ['Delivery', job.delivery],
    ['Attempts', `${job.retry.maxAttempts}, each at most ${durationWords(job.attemptTimeoutMs)}`],
    ['Backoff', backoffWords(job)],
    ...retryCodeFields(job),
    ['Whole run', limitWords(job.runDeadlineMs, 'at most', 'after it was due')],
    ['First attempt', limitWords(job.startWithinMs, 'within', 'after it was due, else it expires')],
    ['Queue', job.queue],
    ...(job.runAs === null ? [] : [['Runs as', job.runAs] as const]),
    ['Priority', String(job.priority)],
    ...gatheringFields(job),
    ...jobLimitFields(job, clock),
    ['Changed', timeWithDistance(job.updatedAt, clock)],
  ],
}

function gatheringFields({ debounce, collect }: Job): (readonly [string, string])[] {
  const by = (key: string | null): string => (key === null ? '' : `, for each value of ${key}`)
  if (debounce !== null) {
    const { windowMs, maxWaitMs, key } = debounce
    const [quiet, longest] = [durationWords(windowMs), durationWords(maxWaitMs)]
    return [['Debounce', `${quiet} after the last request, at most ${longest}${by(key)}`]]
  }
  if (collect === null) return []
  const { maxItems, windowMs, key } = collect
  return [['Collect', `up to ${maxItems} requests in ${durationWords(windowMs)}${by(key)}`]]
}

function retryCodeFields({ retry }: Job): (readonly [string, string])[] {
  const { retryOn, neverRetryOn } = retry
  return [
    ...(retryOn.length === 0 ? [] : [['Tried again on', `${retryOn.join(', ')}; nothing else`] as const]),
    ...(neverRetryOn.length === 0 ? [] : [['Never again on', neverRetryOn.join(', ')] as const]),
  ]
}

const limitWords = (ms: number | null, before: string, after: string): string =>
  ms === null ? 'no limit' : `${before} ${durationWords(ms)} ${after}`

function backoffWords({ retry }: Job): string {
  const jitter = retry.jitter === 'full' ? ', full jitter' : ''
  if (retry.backoff === 'list')
    return `${retry.delaysMs.map(durationWords).join(', ')}, then the last again${jitter}`
  if (retry.backoff === 'fixed') return `fixed, ${durationWords(retry.baseMs)}${jitter}`
  return `exponential, from ${durationWords(retry.baseMs)} to ${durationWords(retry.capMs)}${jitter}`
}

/** "every 5m", "cron 0 2 * * * Europe/Berlin", "quartz 0 0 2 * * ?", "at 2026-12-01T02:30:00Z". */
export function whenWords(schedule: Pick<Schedule, 'at' | 'every' | 'cron' | 'dialect' | 'zone'>): string {
  const { at, every, cron, dialect } = schedule
  const zone = schedule.zone === 'UTC' ? '' : ` ${schedule.zone}`
  if (every !== null) return /^\s*every\b/i.test(every) ? `${every.trim()}${zone}` : `every ${every}`
  if (cron === null) return `at ${at ?? '-'}${zone}`
  return `${dialect === null || dialect === 'unix' ? 'cron' : dialect} ${cron}${zone}`
}

/** Warnings and notes, one line each, for people. */
export const cautionLines = ({ warnings, notes }: Schedule): readonly string[] => [
  ...warnings.map(({ code, message }) => `Warning: ${message} (${code})`),
  ...notes.map((note) => `Note: ${note}`),
]

function dstWords({ gap, overlap }: NonNullable<Schedule['dst']>): string {
  const parts = [gap === undefined ? [] : [`gap ${gap}`], overlap === undefined ? [] : [`overlap ${overlap}`]]
  return parts.flat().join(', ')
}

function sleepWords({ sleepUntil, sleepReason }: Schedule, clock: Clock): string {
  const why = sleepReason === null || sleepReason === '' ? '' : ` (${sleepReason})`
  return `until ${maybeTime(sleepUntil, clock)}${why}`
}

function delayWords({ jitterMs, flexibleWindowMs }: Schedule): string {
  if (jitterMs > 0) return `jitter, up to ${durationWords(jitterMs)}, each time anew`
  return flexibleWindowMs > 0 ? `flexible window, a fixed part of ${durationWords(flexibleWindowMs)}` : 'none'
}

/** What ends it or stops it, as far as anything does. */
function endWords(schedule: Schedule): (readonly [string, string])[] {
  const { runLimit, runCount, pauseAfterFailures, afterCompletion } = schedule
  const failed =
    pauseAfterFailures === 1 ? 'after a failed run' : `after ${pauseAfterFailures} failed runs in a row`
  return [
    ...(runLimit === null ? [] : [['Run limit', `${runCount} of ${runLimit} runs started`] as const]),
    ...(pauseAfterFailures === null ? [] : [['Pauses', failed] as const]),
    ...(afterCompletion === 'keep' ? [] : [['When completed', 'deleted; its history stays'] as const]),
  ]
}

/** "report", "workflow nightly". */
const targetOf = ({ job, workflow }: ScheduleSummary): string => job ?? `workflow ${workflow ?? ''}`

export const scheduleSummaryShape: Shape<ScheduleSummary> = {
  name: (schedule) => schedule.name,
  columns: [
    { title: 'NAME', cell: (schedule) => schedule.name, flexible: true },
    { title: 'WHEN', cell: whenWords, flexible: true },
    { title: 'JOB', cell: targetOf, flexible: true },
    { title: 'STATE', cell: ({ state: it, sleepUntil }) => state(it, sleepUntil === null ? null : 'asleep') },
    { title: 'NEXT', cell: (schedule, clock) => maybeTime(schedule.nextAt, clock) },
  ],
  fields: () => [],
}

export const scheduleShape: Shape<Schedule> = {
  ...scheduleSummaryShape,
  fields: (schedule, clock) => {
    const { catchUp } = schedule
    return [
      ['Name', schedule.name],
      ['Id', schedule.id],
      ['Description', schedule.description],
      ['When', whenWords(schedule)],
      ['In words', schedule.words],
      ...(schedule.dayMatch === null ? [] : [['Day match', schedule.dayMatch] as const]),
      ...(schedule.dst === null ? [] : [['Clock changes', dstWords(schedule.dst)] as const]),
      ...schedule.warnings.map(({ code, message }) => ['Warning', `${message} (${code})`] as const),
      ...schedule.notes.map((note) => ['Note', note] as const),
      ['State', state(schedule.state, schedule.pausedReason === '' ? null : schedule.pausedReason)],
      ...(schedule.sleepUntil === null ? [] : [['Asleep', sleepWords(schedule, clock)] as const]),
      ['Next', maybeTime(schedule.nextAt, clock)],
      ...schedule.upcoming.slice(1).map((at) => ['Then', maybeTime(at, clock)] as const),
      ...(schedule.job === null ? [] : [['Job', schedule.job] as const]),
      ...(schedule.workflow === null ? [] : [['Workflow', schedule.workflow] as const]),
      ['From', maybeTime(schedule.startAt, clock)],
      ['Until', maybeTime(schedule.endAt, clock)],
      ['Delay', delayWords(schedule)],
      [
        'Catch-up',
        `${catchUp.policy}, back to ${durationWords(catchUp.windowMs)}, at most ${catchUp.maxRuns} runs`,
      ],
      ['Overlap', schedule.overlap],
      ...endWords(schedule),
      ['Input', schedule.input === null ? '-' : JSON.stringify(schedule.input)],
      ['Changed', timeWithDistance(schedule.updatedAt, clock)],
    ]
  },
}

export const runSummaryShape: Shape<RunSummary> = {
  name: (run) => run.id,
  columns: [
    { title: 'ID', cell: (run) => run.id },
    { title: 'JOB', cell: (run) => run.job, flexible: true },
    { title: 'STATE', cell: (run) => state(run.state, run.reason), flexible: true },
    { title: 'ATTEMPTS', cell: (run) => `${run.attempts}/${run.maxAttempts}`, align: 'right' },
    { title: 'DELIVERY', cell: (run) => run.delivery },
    { title: 'DUE', cell: (run, clock) => timeWithDistance(run.dueAt, clock) },
    { title: 'LATE', cell: (run) => (run.lateMs === null ? '-' : durationWords(run.lateMs)), align: 'right' },
    { title: 'TOOK', cell: tookWords, align: 'right' },
  ],
  fields: runFields,
}

export const runShape: Shape<Run> = {
  ...runSummaryShape,
  fields: (run, clock) => [
    ...runFields(run, clock),
    ['Input', run.input === null ? '-' : JSON.stringify(run.input)],
    ...(run.cancelReason === null ? [] : [['Canceled because', plain(run.cancelReason)] as const]),
    ...dependencyFields(run),
    ...(run.replayOf === null ? [] : [['Replays', run.replayOf] as const]),
    ...(run.replayedAs === null ? [] : [['Replayed as', run.replayedAs] as const]),
    ...(olderAttempts(run) === 0
      ? []
      : [['Older attempts', `${olderAttempts(run)}, not shown here`] as const]),
    // the timeline tells of them, where there is one
    ...(timelineOf(run).length > 0 ? [] : run.attemptList).map(
      (attempt) =>
        [
          `Attempt ${attempt.number}`,
          { text: attemptWords(attempt, clock), tone: toneOf(attempt.outcome) },
        ] as const,
    ),
  ],
}

/** How many attempts the run has besides those that it is shown with. */
export const olderAttempts = (run: Run): number => run.attemptsTotal - run.attemptList.length

function tookWords(run: RunSummary): string {
  if (run.startedAt === null || run.finishedAt === null) return '-'
  return durationWords(Date.parse(run.finishedAt) - Date.parse(run.startedAt))
}

function runFields(run: RunSummary, clock: Clock): (readonly [string, string | Cell])[] {
  return [
    ['Id', run.id],
    ['Job', `${run.job} (version ${run.jobVersion})`],
    ['State', state(run.state, run.reason)],
    ...(run.reason === null ? [] : [['Reason', reasonWords[run.reason]] as const]),
    ['Asked by', run.source],
    ['Planned for', maybeTime(run.scheduledFor, clock)],
    ['Due', timeWithDistance(run.dueAt, clock)],
    ['Started', maybeTime(run.startedAt, clock)],
    ['Late by', run.lateMs === null ? '-' : durationWords(run.lateMs)],
    ['Finished', maybeTime(run.finishedAt, clock)],
    ['Attempts', `${run.attempts} of ${run.maxAttempts}`],
    ['Next attempt', maybeTime(run.nextAttemptAt, clock)],
    ...(run.startBy === null ? [] : [['Must start by', maybeTime(run.startBy, clock)] as const]),
    ...(run.runDeadline === null ? [] : [['Must end by', maybeTime(run.runDeadline, clock)] as const]),
    ['Delivery', run.delivery],
    ['Idempotency key', run.idempotencyKey],
    ['Queue', run.queue],
    ...(run.runAs === null ? [] : [['Runs as', run.runAs] as const]),
    ['Priority', String(run.priority)],
    ...(run.cancelRequested ? [['Cancel', 'requested'] as const] : []),
  ]
}

const mostDependencies = 10

/** What it depends on, and how that ended so far. */
function dependencyFields({ dependsOn, rule }: Run): (readonly [string, string])[] {
  if (rule === null) return []
  const more = dependsOn.length - mostDependencies
  return [
    ['Rule', rule],
    ...dependsOn.slice(0, mostDependencies).map(({ runId, state: ended }) => {
      return ['Depends on', `${runId}, ${ended ?? 'has not ended'}`] as const
    }),
    ...(more > 0 ? [['Depends on', `${more} more`] as const] : []),
  ]
}

/** "failed after 120 ms, HTTP 500, started 2026-11-29 23:10:05". */
export function attemptWords(attempt: Attempt, clock: Clock): string {
  const took = attempt.durationMs === null ? '' : ` after ${durationWords(attempt.durationMs)}`
  const status = attempt.httpStatus === null ? '' : `, HTTP ${attempt.httpStatus}`
  return `${attempt.outcome}${took}${status}, started ${timeWords(attempt.startedAt, clock)}`
}

/** "skipped (asleep: stock-taking)". */
function outcomeCell({ outcome, reason, detail }: Occurrence): Cell {
  return state(outcome, reason === null || detail === null ? reason : `${reason}: ${detail}`)
}

export const occurrenceShape: Shape<Occurrence> = {
  name: (occurrence) => occurrence.scheduledFor,
  columns: [
    { title: 'PLANNED FOR', cell: (occurrence, clock) => timeWithDistance(occurrence.scheduledFor, clock) },
    { title: 'OUTCOME', cell: outcomeCell, flexible: true },
    { title: 'STANDS FOR', cell: (occurrence) => String(occurrence.missedCount), align: 'right' },
    { title: 'LATE', cell: (occurrence) => durationWords(occurrence.lateMs), align: 'right' },
    { title: 'RUN', cell: runsWords },
  ],
  fields: () => [],
}

/** Its own run; where it has none, the newest that ran for this time later on. */
function runsWords({ runId, workflowRunId, laterRunIds }: Occurrence): string {
  const [newest] = laterRunIds
  const own = runId ?? workflowRunId
  if (newest === undefined) return own ?? '-'
  return own === null ? `${newest} (later)` : `${own} (and ${laterRunIds.length} later)`
}

export const tenantShape: Shape<Tenant> = {
  name: (tenant) => tenant.name,
  columns: [
    { title: 'NAME', cell: (tenant) => tenant.name, flexible: true },
    { title: 'ID', cell: (tenant) => tenant.id },
    { title: 'MADE', cell: (tenant, clock) => timeWithDistance(tenant.createdAt, clock) },
  ],
  fields: () => [],
}

export const keyShape: Shape<Key> = {
  name: (key) => key.name,
  columns: [
    { title: 'NAME', cell: (key) => key.name, flexible: true },
    { title: 'PREFIX', cell: (key) => key.prefix },
    { title: 'SCOPES', cell: (key) => key.scopes.join(','), flexible: true },
    { title: 'STATE', cell: (key, clock) => state(keyState(key, clock)) },
    { title: 'LAST USED', cell: (key, clock) => maybeTime(key.lastUsedAt, clock) },
    { title: 'ID', cell: (key) => key.id },
  ],
  fields: (key, clock) => [
    ['Name', key.name],
    ['Id', key.id],
    ['Prefix', key.prefix],
    ['Scopes', key.scopes.join(', ')],
    ...(key.owner === null ? [] : [['Owner', key.owner.name] as const]),
    ...(key.queues === null ? [] : [['Queues', key.queues.join(', ')] as const]),
    ['Expires', maybeTime(key.expiresAt, clock)],
  ],
}

function keyState(key: Key, clock: Clock): string {
  if (key.revokedAt !== null) return 'revoked'
  return key.expiresAt !== null && Date.parse(key.expiresAt) <= clock.now() ? 'expired' : 'active'
}

export const workerShape: Shape<WorkerView> = {
  name: (worker) => worker.id,
  columns: [
    { title: 'ID', cell: (worker) => worker.id },
    { title: 'HOST', cell: (worker) => worker.host, flexible: true },
    { title: 'QUEUES', cell: (worker) => worker.queues.join(','), flexible: true },
    { title: 'FUNCTIONS', cell: (worker) => worker.functions.join(','), flexible: true },
    { title: 'RUNS', cell: (worker) => `${worker.held}/${worker.slots}`, align: 'right' },
    { title: 'SINCE', cell: (worker, clock) => timeWithDistance(worker.startedAt, clock) },
    { title: 'HEARTBEAT', cell: (worker, clock) => timeWithDistance(worker.heartbeatAt, clock) },
  ],
  fields: () => [],
}
