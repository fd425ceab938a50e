/**
 * From records to the bodies that the contract describes: instants become RFC 3339 in UTC, absent things
 * null, stored JSON gets its keys in a fixed order, and headers that carry secrets are masked.
 */
import type {
  Attempt,
  Job,
  JobSummary,
  Key,
  Occurrence,
  Replan,
  Run,
  RunSummary,
  Schedule,
  SchedulePreviewed,
  ScheduleSummary,
  RunLog,
  Tenant,
  WorkerView,
} from '@belfry/contract'
import { maxCapturedBytes, maxLogBytes, maxShownAttempts } from '@belfry/contract'
import type { Preview } from '../engine/catalog/schedule-preview.ts'
import { readingOf } from '../engine/catalog/timing-notes.ts'
import type { ScheduleWarning } from '../domain/schedule/schedule-warnings.ts'
import type { StoredSpec } from '../domain/stored-spec.ts'
import { isReadable } from '../domain/stored-spec.ts'
import type {
  AttemptRecord,
  JobRecord,
  JobSummaryRecord,
  PresentAttempt,
  RunRecord,
  RunSummaryRecord,
} from '../ports/catalog.ts'
import type { ReplanRecord } from '../ports/replans.ts'
import { handlerSummary, handlerView } from './handler-views.ts'
import { concurrencyView, pauseView, rateLimitView } from './limit-views.ts'
import type { OccurrenceRecord, ScheduleRecord, ScheduleSummaryRecord } from '../ports/schedule-store.ts'
import type { LogChunkRecord, WorkerRecord } from '../ports/worker-catalog.ts'
import type { ZoneSource } from '../ports/zones.ts'
import type { KeyRecord, TenantRecord } from '../ports/tenants.ts'
import { timelineView } from './run-insight-views.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function replanView(replan: ReplanRecord): Replan {
  const { id, subject: zone, state, fromVersion, toVersion, total, done, moved, failed, error } = replan
  return {
    id,
    zone,
    state,
    fromVersion,
    toVersion,
    total,
    done,
    moved,
    failed,
    error,
    requestedAt: iso(replan.requestedAtMs),
    startedAt: isoOrNull(replan.startedAtMs),
    endedAt: isoOrNull(replan.endedAtMs),
  }
}

export function tenantView(tenant: TenantRecord): Tenant {
  return { id: tenant.id, name: tenant.name, createdAt: iso(tenant.createdAtMs) }
}

export function keyView(key: KeyRecord): Key {
  return {
    id: key.id,
    name: key.name,
    owner: key.owner === null ? null : { ...key.owner },
    prefix: key.prefix,
    scopes: [...key.scopes],
    queues: key.queues === null ? null : [...key.queues],
    createdAt: iso(key.createdAtMs),
    expiresAt: isoOrNull(key.expiresAtMs),
    revokedAt: isoOrNull(key.revokedAtMs),
    lastUsedAt: isoOrNull(key.lastUsedAtMs),
  }
}

export function jobView(job: JobRecord): Job {
  return { ...jobSummaryView(job), handler: handlerView(job.definition.handler) }
}

export function jobSummaryView(job: JobSummaryRecord): JobSummary {
  const { handler, retry, attemptTimeoutMs, runDeadlineMs, startWithinMs, delivery, queue, priority } =
    job.definition
  // spelled out, because the database keeps the keys of a JSON object in an order of its own
  return {
    id: job.id,
    name: job.name,
    description: job.description,
    version: job.version,
    handler: handlerSummary(handler),
    retry: retryView(retry),
    attemptTimeoutMs,
    runDeadlineMs,
    startWithinMs,
    delivery,
    queue,
    priority,
    debounce: debounceView(job.definition.debounce),
    collect: collectView(job.definition.collect),
    concurrency: concurrencyView(job.definition.concurrency),
    rateLimit: rateLimitView(job.definition.rateLimit),
    runAs: job.definition.runAs,
    paused: pauseView(job.paused),
    createdAt: iso(job.createdAtMs),
    updatedAt: iso(job.updatedAtMs),
  }
}

const debounceView = (debounce: Job['debounce']): Job['debounce'] =>
  debounce === null ? null : { windowMs: debounce.windowMs, maxWaitMs: debounce.maxWaitMs, key: debounce.key }
const collectView = (collect: Job['collect']): Job['collect'] =>
  collect === null ? null : { maxItems: collect.maxItems, windowMs: collect.windowMs, key: collect.key }

function retryView(retry: Job['retry']): Job['retry'] {
  const { maxAttempts, backoff, baseMs, capMs, jitter } = retry
  const lists = {
    delaysMs: [...retry.delaysMs],
    retryOn: [...retry.retryOn],
    neverRetryOn: [...retry.neverRetryOn],
  }
  return { maxAttempts, backoff, baseMs, capMs, jitter, ...lists }
}

/** How many planned times one schedule in full shows. */
const shownTimes = 3

export function scheduleView(schedule: ScheduleRecord, zones: ZoneSource, nowMs: number): Schedule {
  const reading = readingOf(schedule, zones)
  return {
    ...scheduleSummaryView(schedule, zones, nowMs, reading),
    upcoming: reading.upcoming(shownTimes).map(iso),
    warnings: reading.warnings(nowMs).map(warningView),
    input: schedule.input ?? null,
  }
}

const warningView = ({ code, message, atMs }: ScheduleWarning): Schedule['warnings'][number] => ({
  code,
  message,
  at: isoOrNull(atMs),
})

export function previewView(preview: Preview, { dataVersion }: ZoneSource): SchedulePreviewed {
  const next = preview.nextMs.map(iso)
  return {
    next,
    excluded: preview.excluded.map(({ timeMs, calendar, reason, movedToMs }) => {
      return { at: iso(timeMs), calendar, reason, movedTo: isoOrNull(movedToMs ?? null) }
    }),
    notes: preview.notes.map(({ atMs, message }) => ({ at: iso(atMs), message })),
    description: preview.description,
    warnings: preview.warnings.map(warningView),
    zone: { name: preview.zoneName, dataVersion },
    before: preview.beforeMs?.map(iso) ?? null,
    after: preview.beforeMs === null ? null : next,
  }
}

export function scheduleSummaryView(
  schedule: ScheduleSummaryRecord,
  zones: ZoneSource,
  nowMs: number,
  reading = readingOf(schedule, zones, 1),
): ScheduleSummary {
  const { spec, catchUp } = schedule
  const sleep = schedule.sleep !== null && schedule.sleep.untilMs > nowMs ? schedule.sleep : null
  const dst = isReadable(spec) ? spec.dst : undefined
  const { words, notes, nextMs } = reading
  const named = (use: 'skip' | 'only') =>
    schedule.calendars.filter((calendar) => calendar.use === use).map(({ name }) => name)
  return {
    id: schedule.id,
    name: schedule.name,
    description: schedule.description,
    jobId: schedule.jobId,
    job: schedule.jobName,
    workflowId: schedule.workflowId,
    workflow: schedule.workflowName,
    at: 'at' in spec ? spec.at : null,
    every: 'every' in spec ? spec.every : null,
    cron: 'cron' in spec ? spec.cron : null,
    dialect: 'cron' in spec ? spec.dialect : null,
    dayMatch: 'cron' in spec ? (spec.dayMatch ?? null) : null,
    zone: schedule.zone,
    dst: dst === undefined ? null : dstView(dst),
    startAt: isoOrNull(schedule.startAtMs),
    endAt: isoOrNull(schedule.endAtMs),
    skipOn: named('skip'),
    onlyOn: named('only'),
    onExcluded: schedule.onExcluded,
    jitterMs: schedule.jitterMs,
    flexibleWindowMs: schedule.flexibleWindowMs,
    catchUp: { policy: catchUp.policy, windowMs: catchUp.windowMs, maxRuns: catchUp.maxRuns },
    overlap: schedule.overlap,
    runLimit: schedule.runLimit,
    pauseAfterFailures: schedule.pauseAfterFailures,
    afterCompletion: schedule.afterCompletion,
    state: schedule.state,
    pausedReason: schedule.pausedReason,
    pausedAt: isoOrNull(schedule.pausedAtMs),
    resumedAt: isoOrNull(schedule.resumedAtMs),
    sleepUntil: isoOrNull(sleep?.untilMs ?? null),
    sleepReason: sleep?.reason ?? null,
    runCount: schedule.runCount,
    nextAt: isoOrNull(nextMs),
    zoneDataVersion: schedule.zoneDataVersion,
    words,
    notes: [...notes],
    createdAt: iso(schedule.createdAtMs),
    updatedAt: iso(schedule.updatedAtMs),
  }
}

function dstView({ gap, overlap }: NonNullable<StoredSpec['dst']>) {
  return { ...(gap === undefined ? {} : { gap }), ...(overlap === undefined ? {} : { overlap }) }
}

export function occurrenceView(occurrence: OccurrenceRecord): Occurrence {
  return {
    scheduleId: occurrence.scheduleId,
    scheduledFor: iso(occurrence.scheduledForMs),
    outcome: occurrence.outcome,
    reason: occurrence.reason,
    detail: occurrence.detail,
    missedCount: occurrence.missedCount,
    runId: occurrence.runId,
    workflowRunId: occurrence.workflowRunId,
    laterRunIds: [...occurrence.laterRunIds],
    firedAt: iso(occurrence.firedAtMs),
    lateMs: occurrence.firedAtMs - occurrence.dueAtMs,
  }
}

export function runSummaryView(run: RunSummaryRecord): RunSummary {
  return {
    id: run.id,
    jobId: run.jobId,
    job: run.jobName,
    jobVersion: run.jobVersion,
    scheduleId: run.scheduleId,
    scheduledFor: isoOrNull(run.scheduledForMs),
    source: run.source,
    state: run.state,
    reason: run.reason,
    queue: run.queue,
    priority: run.priority,
    delivery: run.delivery,
    runAs: run.runAs,
    attempts: run.attempts,
    maxAttempts: run.maxAttempts,
    idempotencyKey: run.id,
    createdAt: iso(run.createdAtMs),
    dueAt: iso(run.dueAtMs),
    nextAttemptAt: isoOrNull(run.nextAttemptAtMs),
    startBy: isoOrNull(run.startByMs),
    runDeadline: isoOrNull(run.runDeadlineMs),
    startedAt: isoOrNull(run.startedAtMs),
    finishedAt: isoOrNull(run.finishedAtMs),
    lateMs: run.startedAtMs === null ? null : run.startedAtMs - run.dueAtMs,
    cancelRequested: run.cancelRequested,
  }
}

/** A run that was read with at least `maxShownAttempts` of its attempts. */
export function runView(run: RunRecord): Run {
  const newest = attemptViews(run).slice(0, maxShownAttempts)
  return {
    ...runSummaryView(run),
    input: run.input ?? null,
    cancelReason: run.cancelReason,
    replayOf: run.replayOf,
    replayedAs: run.replayedAs,
    dependsOn: [...run.dependsOn],
    rule: run.rule,
    attemptList: newest.reverse(),
    attemptsTotal: run.attemptsEnded + (run.present === null ? 0 : 1),
    timeline: timelineView(run),
  }
}

/** Newest first: the one under way, then those that ended. */
export function attemptViews({ present, attemptList }: RunRecord): Attempt[] {
  return [...(present === null ? [] : [presentView(present)]), ...attemptList.map(attemptView)]
}

function presentView(present: PresentAttempt): Attempt {
  return {
    number: present.number,
    outcome: 'running',
    startedAt: iso(present.startedAtMs),
    endedAt: null,
    durationMs: null,
    error: null,
    httpStatus: null,
    response: null,
    responseTruncated: false,
    responseHeaders: null,
    responseCapBytes: maxCapturedBytes,
    result: null,
    retryAt: null,
    workerId: present.sessionId,
    leaseEpoch: present.leaseEpoch,
    progress: present.progress,
  }
}

function attemptView(attempt: AttemptRecord): Attempt {
  const { errorCode, errorMessage } = attempt
  return {
    number: attempt.number,
    outcome: attempt.outcome,
    startedAt: iso(attempt.startedAtMs),
    endedAt: iso(attempt.endedAtMs),
    durationMs: Math.max(0, attempt.endedAtMs - attempt.startedAtMs),
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    httpStatus: attempt.httpStatus,
    response: attempt.response,
    responseTruncated: attempt.responseTruncated,
    responseHeaders: attempt.responseHeaders === null ? null : { ...attempt.responseHeaders },
    responseCapBytes: maxCapturedBytes,
    result: attempt.result,
    retryAt: isoOrNull(attempt.retryAtMs),
    workerId: attempt.sessionId,
    leaseEpoch: attempt.leaseEpoch,
    progress: null,
  }
}

export function workerView(worker: WorkerRecord): WorkerView {
  return {
    id: worker.id,
    host: worker.host,
    version: worker.version,
    queues: [...worker.queues],
    functions: [...worker.functions],
    slots: worker.slots,
    held: worker.held,
    startedAt: iso(worker.startedAtMs),
    heartbeatAt: iso(worker.heartbeatAtMs),
    expiresAt: iso(worker.expiresAtMs),
  }
}

/** A page of a log: of its chunks, read with one more than it shows, the lines after the given one. */
export function runLogView(
  chunks: readonly LogChunkRecord[],
  attempt: number | null,
  after: number,
  limit: number,
): RunLog {
  const shown = chunks.slice(0, limit)
  const lines = shown.flatMap(({ firstLine, lines: all }) =>
    all.map((line, index) => ({ number: firstLine + index, ...line })),
  )
  return {
    attempt: chunks[0]?.attempt ?? attempt,
    lines: lines.filter((line) => line.number > after),
    lastLine: shown.at(-1)?.lastLine ?? after,
    more: chunks.length > limit,
    full: shown.at(-1)?.fullAfter ?? false,
    logCapBytes: maxLogBytes,
  }
}
