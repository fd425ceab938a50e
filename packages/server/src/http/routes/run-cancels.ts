/**
 * Endpoints that cancel runs: one, or those that a filter means, a bounded number a call. Where a run stands
 * when it is reached decides how (engine/catalog/run-canceler.ts).
 */
import type { RunCancelMany, RunSelection } from '@belfry/contract'
import { BelfryError, bulkSampleSize, cancelableStates } from '@belfry/contract'
import { cancelRuns } from '../../engine/catalog/run-canceler.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { CancelFilter } from '../../ports/run-cancels.ts'
import { jobCounts, readStep, refuseMore, sumOf } from '../bulk.ts'
import { makeCursor, readId } from '../cursor.ts'
import type { Endpoints } from '../endpoint.ts'
import { runSummaryView, runView } from '../views.ts'
import { wantedJob } from '../wanted-job.ts'
import { storedRun } from '../stored-run.ts'

type CancelEndpoints = Pick<Endpoints, 'runCancel' | 'runCancelMany'>

const nothing = { canceled: 0, asked: 0, ended: 0, nextCursor: null, preview: null }

export const runCancelEndpoints: CancelEndpoints = {
  runCancel: {
    as: 'tenant',
    async answer({ tx, params, body, after }) {
      const { missed, hints } = await cancelRuns(tx.cancels, [params.id], body.reason)
      const run = await storedRun(tx, params.id)
      if (missed.length > 0) throw notCanceled(run.state)
      for (const hint of hints) after({ kind: 'hint', hint })
      return { body: runView(run) }
    },
  },
  runCancelMany: {
    as: 'tenant',
    async answer({ tx, query, body, credential, after }) {
      const scope = { list: 'runs.cancel', tenantId: credential.tenantId, filter: body.filter }
      const beforeId = readStep(scope, body, readId)
      const filter = await cancelFilter(tx, body.filter)
      if (filter === null) return { body: { ...nothing, preview: query.dryRun ? emptySelection : null } }
      await refuseMore(body, async () => {
        const { tallies, isWhole } = await tx.cancels.tally(filter)
        return { total: sumOf(tallies), isWhole }
      })
      if (query.dryRun) return { body: { ...nothing, preview: await previewOf(tx, filter) } }
      const { runIds, lookedTo } = await tx.cancels.next({ beforeId, limit: body.limit }, filter)
      const { canceled, asked, missed, hints } = await cancelRuns(tx.cancels, runIds, body.reason)
      for (const hint of hints) after({ kind: 'hint', hint })
      const nextCursor = lookedTo === null ? null : makeCursor(scope, lookedTo)
      return { body: { canceled, asked, ended: missed.length, nextCursor, preview: null } }
    },
  },
}

function notCanceled(state: string): BelfryError {
  return (cancelableStates as readonly string[]).includes(state)
    ? new BelfryError('serialization_conflict', 'The run keeps moving on; try again.')
    : new BelfryError('invalid_state', `The run has already ended (${state}). Nothing is left to cancel.`)
}

/** Null where it names a job that is not here. */
async function cancelFilter(tx: CatalogTx, given: RunCancelMany['filter']): Promise<CancelFilter | null> {
  const { state, job, queue, scheduleId, backfillId, createdAfter, createdBefore } = given
  const jobId = await wantedJob(tx, job, given.jobId)
  if (jobId === null) return null
  return {
    states: state ?? cancelableStates,
    jobId,
    queue,
    scheduleId,
    backfillId,
    createdAfterMs: createdAfter === undefined ? null : Date.parse(createdAfter),
    createdBeforeMs: createdBefore === undefined ? null : Date.parse(createdBefore),
  }
}

const emptySelection: RunSelection = {
  count: 0,
  exact: true,
  byState: { waiting_for_dependencies: 0, pending: 0, running: 0 },
  byJob: [],
  sample: [],
}

async function previewOf(tx: CatalogTx, filter: CancelFilter): Promise<RunSelection> {
  const { tallies, isWhole } = await tx.cancels.tally(filter)
  const { runIds } = await tx.cancels.next({ beforeId: null, limit: bulkSampleSize }, filter)
  const sample = await Promise.all(runIds.map((id) => tx.runs.find(id, { before: null, limit: 1 })))
  const inState = (wanted: string): number => sumOf(tallies.filter(({ state }) => state === wanted))
  return {
    count: sumOf(tallies),
    exact: isWhole,
    byState: {
      waiting_for_dependencies: inState('waiting_for_dependencies'),
      pending: inState('pending'),
      running: inState('running'),
    },
    byJob: jobCounts(tallies),
    sample: sample.flatMap((run) => (run === undefined ? [] : [runSummaryView(run)])),
  }
}
