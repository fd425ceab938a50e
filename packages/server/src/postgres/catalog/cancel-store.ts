/**
 * Cancels of runs of one tenant (statements/run-cancels.ts). How many runs a step looks at is bounded here;
 * the filter may let few of them pass.
 */
import type { CancelableState } from '@belfry/contract'
import { maxBulkCounted } from '@belfry/contract'
import { remainingBefore } from '../../domain/chain-links.ts'
import { dependencyShard, workflowShard } from '../../domain/shard.ts'
import type { CancelFilter, RunCancels } from '../../ports/run-cancels.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/run-cancels.ts'
import { idFloor, idMarginMs } from './id-ranges.ts'
import { isoOrNull, lastId } from './values.ts'

/** Runs that one step looks at. */
const mostLooked = 20_000

export function createCancelStore(tx: Transaction): RunCancels {
  return {
    async next({ beforeId, limit }, filter) {
      const columns = filterColumns(filter, beforeId, mostLooked)
      const rows = await tx.query(statements.listCancelable, [...columns, limit])
      const runIds = rows.flatMap(({ run_id: id }) => (id === null ? [] : [id]))
      // a full step ends at its last run, one that is not where its look ended
      return {
        runIds,
        lookedTo: runIds.length === limit ? (runIds.at(-1) ?? null) : (rows[0]?.looked_to ?? null),
      }
    },
    async tally(filter) {
      const rows = await tx.query(statements.tallyCancelable, filterColumns(filter, null, maxBulkCounted))
      const tallies = rows.flatMap(({ state, job_id: jobId, job_name: jobName, count }) =>
        state === null || jobId === null
          ? []
          : [{ state: state as CancelableState, jobId, jobName: jobName ?? jobId, count }],
      )
      return { tallies, isWhole: rows[0]?.is_whole ?? true }
    },
    async cancelWaiting(runIds) {
      // sent together, done one after the other: the timers are locked before the runs
      const [, gone] = await Promise.all([
        tx.query(statements.lockTimersOfChains, [runIds]),
        tx.query(statements.cancelWaitingRuns, [runIds]),
      ])
      const canceledIds = gone.map((row) => row.run_id)
      if (canceledIds.length === 0) return { canceledIds, timerShards: [] }
      const links = gone.map((row) => ({ runId: row.run_id, beforeRunId: row.after_run_id }))
      const scheduleIds = gone.map((row) => row.schedule_id)
      const rows = await tx.query(statements.closeChains, [canceledIds, remainingBefore(links), scheduleIds])
      const tasks = gone.some((row) => row.of_task) ? [workflowShard] : []
      const told = gone[0]?.told_dependents === true ? [dependencyShard] : []
      const shards = [...rows.map(({ shard }) => shard), ...tasks, ...told]
      return { canceledIds, timerShards: [...new Set(shards)] }
    },
    async requestCancels(runIds) {
      const rows = await tx.query(statements.requestRunCancels, [runIds])
      return rows.map((row) => ({ runId: row.run_id, sessionId: row.session_id }))
    },
    async note(runIds, reason) {
      await tx.query(statements.noteCancels, [runIds, reason])
    },
    async backfilledSchedules(runIds) {
      return (await tx.query(statements.listBackfilledSchedules, [runIds])).map((row) => row.schedule_id)
    },
  }
}

function filterColumns(
  filter: CancelFilter,
  beforeId: string | null,
  look: number,
): statements.CancelFilterColumns {
  const { states, jobId, queue, scheduleId, backfillId, createdAfterMs, createdBeforeMs } = filter
  const cursor = beforeId ?? lastId
  const bound = createdBeforeMs === null ? lastId : idFloor(createdBeforeMs + idMarginMs)
  return [
    states,
    jobId ?? null,
    queue ?? null,
    scheduleId ?? null,
    backfillId ?? null,
    isoOrNull(createdAfterMs),
    isoOrNull(createdBeforeMs),
    createdAfterMs === null ? idFloor(0) : idFloor(createdAfterMs - idMarginMs),
    cursor < bound ? cursor : bound,
    look,
  ]
}
