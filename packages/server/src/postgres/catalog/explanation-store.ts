/**
 * The reads behind an explanation, for one tenant. Each is bounded: rows by a limit, rows that stand for many
 * times by how many are looked at.
 */
import type { OccurrenceReason, RunReason, RunSource, RunState } from '@belfry/contract'
import type { ExplainedRun, ExplanationStore, LedgerRow } from '../../ports/explanations.ts'
import type { Transaction } from '../database.ts'
import type { ExplainedRecordRow, ExplainedRunRow } from '../statements/explanations.ts'
import * as statements from '../statements/explanations.ts'
import { isoOf, msOf, msOrNull } from './values.ts'

/** A row that stands for many times has at most as many newer ones before the next times without a row. */
const mostLooked = 1_200
const mostExtraRuns = 500

export function createExplanationStore(tx: Transaction): ExplanationStore {
  return {
    async find(id) {
      const [row] = await tx.query(statements.explainedSchedule, [id])
      if (row === undefined) return undefined
      return {
        name: row.name,
        zone: row.zone,
        createdAtMs: msOf(row.created_at),
        deletedAtMs: msOrNull(row.deleted_at),
        runLimit: row.run_limit,
        runCount: row.run_count,
        endedItself: row.ended_itself,
        timingSinceMs: msOf(row.timing_since),
      }
    },
    async records(id, fromMs, toMs, limit) {
      const rows = await tx.query(statements.explainedRecords, [id, isoOf(fromMs), isoOf(toMs), limit])
      return rows.map(ledgerRow)
    },
    async sumsBefore(id, beforeMs) {
      return (await tx.query(statements.explainedSums, [id, isoOf(beforeMs), mostLooked])).map(ledgerRow)
    },
    async extraRuns(id, fromMs, toMs) {
      const wanted = [id, isoOf(fromMs), isoOf(toMs), mostExtraRuns] as const
      const rows = await tx.query(statements.explainedExtraRuns, [...wanted])
      return rows.map((row) => ({
        scheduledForMs: msOf(row.scheduled_for),
        runId: row.run_id,
        backfillId: row.backfill_id,
      }))
    },
    async runs(ids) {
      const rows = ids.length === 0 ? [] : await tx.query(statements.explainedRuns, [ids])
      return new Map(rows.map((row) => [row.id, explainedRun(row)]))
    },
  }
}

function ledgerRow(row: ExplainedRecordRow): LedgerRow {
  return {
    scheduledForMs: msOf(row.scheduled_for),
    outcome: row.outcome,
    reason: row.reason as OccurrenceReason | null,
    detail: row.detail,
    missedCount: row.missed_count,
    dueAtMs: msOf(row.due_at),
    firedAtMs: msOf(row.fired_at),
    runId: row.run_id,
  }
}

function explainedRun(row: ExplainedRunRow): ExplainedRun {
  return {
    id: row.id,
    ofWorkflow: row.of_workflow,
    source: row.source as RunSource,
    state: row.state as RunState,
    reason: row.reason as RunReason | null,
    startedAtMs: msOrNull(row.started_at),
    finishedAtMs: msOrNull(row.finished_at),
  }
}
