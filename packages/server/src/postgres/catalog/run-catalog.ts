/**
 * Runs of one tenant. Lists pick the statement by what is asked: a walk over the runs, newest first, where
 * most of what it meets belongs to the page; a start from what is alive and from the index of ends where the
 * states are rare. Either looks at no more than `mostLooked` runs for a page.
 */
import type {
  AttemptOutcome,
  Dependency,
  JobDefinition,
  JsonValue,
  RunReason,
  RunSource,
  RunState,
  TriggerRule,
} from '@belfry/contract'
import { isTerminal, retryPolicySchema } from '@belfry/contract'
import { parkedSession } from '../../domain/parked.ts'
import { routeOf } from '../../domain/route.ts'
import type { Gathering } from '../../domain/run-insight/gathering-words.ts'
import type {
  AttemptRecord,
  NewRun,
  RunCatalog,
  RunFilter,
  RunRecord,
  RunSummaryRecord,
  RunTemplate,
} from '../../ports/catalog.ts'
import type { Found, PageRequest } from '../../ports/paging.ts'
import type { Transaction } from '../database.ts'
import type { GatheringOfRunRow } from '../statements/gatherings.ts'
import { findGatheringOf } from '../statements/gatherings.ts'
import type { RunTemplateRow } from '../statements/jobs.ts'
import { findJobIdByName, findRunTemplateById, findRunTemplateByName } from '../statements/jobs.ts'
import type { AttemptJson, ListedRunRow, RunRow, RunSummaryRow } from '../statements/runs.ts'
import * as statements from '../statements/runs.ts'
import { listRunsOfWorkflowRun } from '../statements/task-runs.ts'
import { createdBetween } from './id-ranges.ts'
import { storedDefinition } from './stored-definition.ts'
import { isoOf, isoOrNull, msOf, msOrNull, only } from './values.ts'

export function createRunCatalog(tx: Transaction, tenantId: string): RunCatalog {
  const template = (rows: readonly RunTemplateRow[]): RunTemplate | undefined => rows.map(runTemplate)[0]
  /** By name: what was asked for ahead. */
  const templates = new Map<string, Promise<RunTemplate | undefined>>()
  return {
    templateByJobId: async (jobId) => template(await tx.query(findRunTemplateById, [jobId])),
    templateByJobName(name) {
      const found = templates.get(name) ?? tx.query(findRunTemplateByName, [name]).then(template)
      templates.set(name, found)
      return found
    },
    async insert(run) {
      const { start } = run
      const common = runColumns(run, tenantId)
      if (start.kind === 'ready')
        return only(await tx.query(statements.insertReadyRun, [...common, start.tag]))
      return only(await tx.query(statements.insertDelayedRun, common))
    },
    async find(id, { before, limit }) {
      const [row] = await tx.query(statements.findRun, [id, before, limit])
      return row === undefined ? undefined : runRecord(row)
    },
    async gathering(id) {
      const [row] = await tx.query(findGatheringOf, [id])
      return row && gatheringOf(row)
    },
    list: async (page, filter) => foundRuns(await listRows(tx, page, filter)),
    jobIdOfName: async (name) => (await tx.query(findJobIdByName, [name]))[0]?.id,
  }
}

function gatheringOf(row: GatheringOfRunRow): Gathering {
  return {
    kind: row.gathers === 'debounce' ? 'debounce' : 'collect',
    items: row.items,
    openedAtMs: row.opened_ms,
    dueAtMs: row.due_ms,
    maxItems: row.max_items,
    maxWaitMs: row.max_wait_ms,
  }
}

/** The columns of a new run, in the order of its statements. */
export function runColumns(run: NewRun, tenantId: string) {
  const { template: from } = run
  return [
    run.id,
    from.jobId,
    from.jobVersion,
    run.scheduleId,
    run.source,
    run.queue,
    run.priority,
    run.input === undefined ? null : JSON.stringify(run.input),
    isoOf(run.dueAtMs),
    isoOrNull(run.scheduledForMs),
    routeOf(from.definition.handler, tenantId),
    from.definition.attemptTimeoutMs,
    isoOrNull(run.startByMs),
    isoOrNull(run.runDeadlineMs),
  ] as const
}

/** How many runs are looked at for a page: some 50 ms where none of them passes. */
const mostLooked = 5_000

function listRows(tx: Transaction, page: PageRequest, filter: RunFilter): Promise<ListedRunRow[]> {
  const { states, jobId, scheduleId, backfillId } = filter
  const walk = [
    ...createdBetween(page, filter),
    page.limit,
    // where every run that is met belongs to the page, no more of them are needed
    selects(filter) ? mostLooked : page.limit,
  ] as const
  if (filter.workflowRun !== undefined) {
    const { id, task } = filter.workflowRun
    return tx.query(listRunsOfWorkflowRun, [...walk, id, task, jobId ?? null, states ?? null])
  }
  if (backfillId !== undefined) {
    const wanted = [backfillId, scheduleId ?? null, jobId ?? null, states ?? null] as const
    return tx.query(statements.listRunsOfBackfill, [...walk, ...wanted])
  }
  if (states !== undefined && !states.includes('succeeded')) {
    const live = states.filter((state) => !isTerminal(state))
    const ended = states.filter(isTerminal)
    return tx.query(statements.listRareRuns, [...walk, live, ended, jobId ?? null, scheduleId ?? null])
  }
  if (scheduleId !== undefined) {
    return states === undefined
      ? tx.query(statements.listRunsOfSchedule, [...walk, scheduleId, jobId ?? null])
      : tx.query(statements.listRunsOfScheduleInStates, [...walk, scheduleId, jobId ?? null, states])
  }
  if (jobId !== undefined) {
    return states === undefined
      ? tx.query(statements.listRunsOfJob, [...walk, jobId])
      : tx.query(statements.listRunsOfJobInStates, [...walk, jobId, states])
  }
  return states === undefined
    ? tx.query(statements.listRuns, walk)
    : tx.query(statements.listRunsInStates, [...walk, states])
}

/** Whether runs that a walk meets may not pass. */
function selects(filter: RunFilter): boolean {
  const { states, jobId, scheduleId, backfillId, createdAfterMs, createdBeforeMs } = filter
  const rare = states !== undefined && !states.includes('succeeded')
  const owners = [jobId, scheduleId, backfillId, filter.workflowRun].filter(
    (owner) => owner !== undefined,
  ).length
  if (createdAfterMs !== null || createdBeforeMs !== null) return true
  return rare ? owners > 0 : states !== undefined || owners > 1
}

function foundRuns(rows: readonly ListedRunRow[]): Found<RunSummaryRecord> {
  const items = rows.flatMap((row) => (row.id === null ? [] : [summaryRecord(row)]))
  return { items, lookedTo: rows[0]?.looked_to ?? null }
}

function runTemplate(row: RunTemplateRow): RunTemplate {
  return {
    jobId: row.job_id,
    jobName: row.job_name,
    jobVersion: row.job_version,
    definition: storedDefinition(row.definition),
    limited: row.limited,
    tenantWeight: row.tenant_weight,
  }
}

function summaryRecord(row: RunSummaryRow): RunSummaryRecord {
  return {
    id: row.id,
    jobId: row.job_id,
    jobName: row.job_name,
    jobVersion: row.job_version,
    scheduleId: row.schedule_id,
    scheduledForMs: msOrNull(row.scheduled_for),
    source: row.source as RunSource,
    state: row.state as RunState,
    reason: row.reason as RunReason | null,
    queue: row.queue,
    priority: row.priority,
    delivery: row.delivery as JobDefinition['delivery'],
    runAs: row.run_as,
    attempts: row.attempts,
    maxAttempts: row.max_attempts,
    createdAtMs: msOf(row.created_at),
    dueAtMs: msOf(row.due_at),
    nextAttemptAtMs: msOrNull(row.next_attempt_at),
    startByMs: msOrNull(row.start_by),
    runDeadlineMs: msOrNull(row.run_deadline),
    startedAtMs: msOrNull(row.started_at),
    finishedAtMs: msOrNull(row.finished_at),
    cancelRequested: row.cancel_requested,
  }
}

function runRecord(row: RunRow): RunRecord {
  const { present_number: number, present_started_at: startedAt, present_session_id: sessionId } = row
  const held = number !== null && startedAt !== null && sessionId !== null
  return {
    ...summaryRecord(row),
    input: row.has_input ? (row.input as JsonValue) : undefined,
    cancelReason: row.cancel_reason,
    replayOf: row.replay_of,
    replayedAs: row.replayed_as,
    dependsOn: row.depends_on.map(([runId, state]) => ({ runId, state: state as Dependency['state'] })),
    rule: row.rule as TriggerRule | null,
    attemptList: row.attempt_list.map(attemptRecord),
    attemptsEnded: row.attempts_ended,
    afterRunId: row.after_run_id,
    heldSinceMs: msOrNull(row.held_since),
    // one that was stored by a version without some of its fields has their defaults
    retry: retryPolicySchema.parse(row.retry),
    nowMs: row.now_ms,
    present: held
      ? {
          number,
          startedAtMs: msOf(startedAt),
          sessionId: workerOf(sessionId),
          awaited: row.present_awaited,
          leaseEpoch: row.present_lease_epoch ?? 0,
          progress: row.present_progress as JsonValue,
        }
      : null,
  }
}

function attemptRecord(attempt: AttemptJson): AttemptRecord {
  const { startedAt, endedAt, retryAt, outcome, result, ...same } = attempt
  return {
    ...same,
    sessionId: workerOf(same.sessionId),
    outcome: outcome as AttemptOutcome,
    result: result as JsonValue,
    startedAtMs: Date.parse(startedAt),
    endedAtMs: Date.parse(endedAt),
    retryAtMs: retryAt === null ? null : Date.parse(retryAt),
  }
}

/** Null: none held it, its target had taken it over. */
const workerOf = (sessionId: string | null): string | null => (sessionId === parkedSession ? null : sessionId)
