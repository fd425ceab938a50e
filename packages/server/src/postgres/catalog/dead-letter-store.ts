/**
 * Dead letters of one tenant (statements/dead-letters.ts): which way of looking a filter needs, and how far
 * it goes for a page or a count.
 */
import type { DeadLetterState, JsonValue, RunReason, RunSource } from '@belfry/contract'
import { maxGroupedLetters } from '@belfry/contract'
import type { LetterPosition } from '../../domain/letter-position.ts'
import type {
  DeadLetterFilter,
  DeadLetterRecord,
  DeadLetterStore,
  FoundLetters,
  HeldLetter,
  LetterTallies,
} from '../../ports/dead-letters.ts'
import type { Transaction } from '../database.ts'
import type {
  DeadLetterRow,
  ListedLetterRow,
  LockedLetterRow,
  Look,
  Pass,
  Way,
} from '../statements/dead-letters.ts'
import * as statements from '../statements/dead-letters.ts'
import { isoOf, lastId, msOf, msOrNull } from './values.ts'

/** Dead letters that are looked at for a page. */
const mostLooked = 5_000
/** Errors of jobs that are told apart in a tally. */
const mostTallies = 5_000
const nilId = '00000000-0000-0000-0000-000000000000'

export function createDeadLetterStore(tx: Transaction): DeadLetterStore {
  return {
    async list({ before, limit }, filter) {
      const selects = [filter.queue, filter.errorCode, filter.jobId, filter.fingerprint].filter(
        (each) => each !== undefined,
      )
      // where every one that is met belongs to the page, no more of them are needed
      const isIndexed = selects.length === 0 || (selects.length === 1 && wayOf(filter) !== 'all')
      const look = lookOf(filter, before, isIndexed ? limit : mostLooked)
      const statement = statements.listDeadLetters[wayOf(filter)]
      return foundLetters(await tx.query(statement, [...look, ...passOf(filter), limit]), limit)
    },
    async find(runId) {
      return (await tx.query(statements.findDeadLetter, [runId])).map(record)[0]
    },
    async tally(filter) {
      const look = lookOf(filter, null, maxGroupedLetters)
      const statement = statements.tallyDeadLetters[wayOf(filter)]
      const rows = await tx.query(statement, [...look, ...passOf(filter), mostTallies])
      return {
        tallies: rows.flatMap(({ fingerprint, ...row }): LetterTallies['tallies'] =>
          fingerprint === null
            ? []
            : [
                {
                  fingerprint,
                  errorCode: row.error_code,
                  jobId: row.job_id,
                  jobName: row.job_name,
                  count: row.count,
                  firstAtMs: msOf(row.first_at),
                  lastAtMs: msOf(row.last_at),
                  sampleRunId: row.sample_run_id,
                },
              ],
        ),
        total: Number(rows[0]?.total ?? 0),
        looked: rows[0]?.looked ?? 0,
        isWhole: rows[0]?.is_whole ?? true,
      }
    },
    async messages(runIds) {
      const rows = await tx.query(statements.listErrorMessages, [runIds])
      return new Map(rows.map((row) => [row.run_id, row.error_message]))
    },
    hold: async (runIds) => (await tx.query(statements.lockDeadLetters, [runIds])).map(heldLetter),
    async markReplayed(replays) {
      const ids = replays.map(({ runId }) => runId)
      await tx.query(statements.markReplayed, [ids, replays.map(({ replayId }) => replayId)])
    },
    markDeleted: async (runIds) => (await tx.query(statements.markDeleted, [runIds])).length,
  }
}

const wayOf = ({ jobId, fingerprint }: DeadLetterFilter): Way =>
  fingerprint !== undefined ? 'fingerprint' : jobId !== undefined ? 'job' : 'all'

const passOf = ({ jobId, fingerprint, queue, errorCode }: DeadLetterFilter): Pass => [
  jobId ?? null,
  fingerprint ?? null,
  queue ?? null,
  errorCode ?? null,
]

function lookOf(filter: DeadLetterFilter, before: LetterPosition | null, look: number): Look {
  const { states, failedAfterMs, failedBeforeMs } = filter
  const bound = failedBeforeMs === null ? null : { failedAtMs: failedBeforeMs, runId: nilId }
  const first = [before, bound].filter((each) => each !== null)
  const earliest = first.reduce<LetterPosition | null>(
    (least, each) => (least === null || each.failedAtMs < least.failedAtMs ? each : least),
    null,
  )
  const at = earliest === null ? 'infinity' : isoOf(earliest.failedAtMs)
  const from = failedAfterMs === null ? '-infinity' : isoOf(failedAfterMs)
  return [states, at, earliest?.runId ?? lastId, from, look]
}

function foundLetters(rows: readonly ListedLetterRow[], limit: number): FoundLetters {
  const items = rows.flatMap((row) => (row.run_id === null ? [] : [record(row)]))
  const [first] = rows
  const looked = first?.looked_at ?? null
  const runId = first?.looked_id ?? null
  const last = items.at(-1)
  if (items.length >= limit && last !== undefined)
    return { items, lookedTo: { failedAtMs: last.failedAtMs, runId: last.runId } }
  return { items, lookedTo: looked === null || runId === null ? null : { failedAtMs: msOf(looked), runId } }
}

function record(row: DeadLetterRow): DeadLetterRecord {
  return {
    runId: row.run_id,
    jobId: row.job_id,
    jobName: row.job_name,
    jobVersion: row.job_version,
    scheduleId: row.schedule_id,
    scheduledForMs: msOrNull(row.scheduled_for),
    source: row.source as RunSource,
    queue: row.queue,
    reason: row.reason as RunReason | null,
    errorCode: row.error_code,
    errorMessage: row.error_message,
    fingerprint: row.fingerprint,
    attempts: row.attempts,
    createdAtMs: msOf(row.created_at),
    failedAtMs: msOf(row.failed_at),
    state: row.state as DeadLetterState,
    replayedAs: row.replayed_as,
    replayedAtMs: msOrNull(row.replayed_at),
    deletedAtMs: msOrNull(row.deleted_at),
  }
}

function heldLetter(row: LockedLetterRow): HeldLetter {
  return {
    runId: row.run_id,
    jobId: row.job_id,
    scheduleId: row.schedule_id,
    scheduledForMs: msOrNull(row.scheduled_for),
    input: row.has_input ? (row.input as JsonValue) : undefined,
    queue: row.own_queue ?? undefined,
    priority: row.own_priority ?? undefined,
    state: row.state as DeadLetterState,
    replayedAs: row.replayed_as,
    workflowRunId: row.workflow_run_id,
  }
}
