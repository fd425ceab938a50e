/**
 * Endpoints of runs: started on demand, listed, looked at, canceled. The state of a run follows from where it
 * stands, so nothing is written here but the places.
 */
import { BelfryError, isTerminal, maxShownAttempts } from '@belfry/contract'
import { backfillHint } from '../../engine/backfill-hints.ts'
import { laneOfRun, makeRun, wantedStart } from '../../engine/catalog/run-maker.ts'
import type { CatalogTx, RunRecord } from '../../ports/catalog.ts'
import type { Effect, Endpoints } from '../endpoint.ts'
import { readCursor, readNumber } from '../cursor.ts'
import { noSuch, noSuchJob } from '../missing.ts'
import { cut, pageById } from '../page.ts'
import { attemptViews, runSummaryView, runView } from '../views.ts'

type RunEndpoints = Pick<Endpoints, 'runCreate' | 'runList' | 'runGet' | 'attemptList' | 'runCancel'>

const suggestionLimit = 200
/** How often a cancel looks again at a run that moves on between two looks. */
const cancelLooks = 5

export const runEndpoints: RunEndpoints = {
  runCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, credential, after }) {
      const nowMs = await tx.nowMs()
      const runAtMs = wantedStart(body.runAt, nowMs)
      const template = await tx.runs.templateByJobName(body.job)
      if (template === undefined) throw noSuchJob(body.job, await tx.jobs.names(suggestionLimit))
      const parts = { ids: tools.ids, tags: tools.tags, tenantId: credential.tenantId, nowMs }
      await tools.tags.ready([laneOfRun(template, credential.tenantId, body.queue)])
      const run = makeRun(parts, template, {
        source: 'manual',
        scheduleId: null,
        input: body.input,
        runAtMs,
        queue: body.queue,
        priority: body.priority,
      })
      const { shard } = await tx.runs.insert(run)
      const ready = run.start.kind === 'ready'
      after({
        kind: 'hint',
        hint: ready ? { topic: 'ready', key: run.queue } : { topic: 'timers', key: String(shard) },
      })
      after({ kind: 'enqueued', queue: run.queue, source: 'manual' })
      return { body: runView(await stored(tx, run.id)), location: `/v1/runs/${run.id}` }
    },
  },
  runList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const { limit, cursor, ...filter } = query
      const scope = { list: 'runs', tenantId: credential.tenantId, filter }
      const jobId = await wantedJob(tx, filter.job, filter.jobId)
      if (jobId === null) return { body: { items: [], nextCursor: null } }
      const wanted = {
        states: filter.state,
        jobId,
        scheduleId: filter.scheduleId,
        backfillId: filter.backfillId,
        createdAfterMs: filter.createdAfter === undefined ? null : Date.parse(filter.createdAfter),
        createdBeforeMs: filter.createdBefore === undefined ? null : Date.parse(filter.createdBefore),
      }
      const page = await pageById(
        scope,
        { limit, cursor },
        (part) => tx.runs.list(part, wanted),
        runSummaryView,
      )
      return { body: page }
    },
  },
  runGet: {
    as: 'tenant',
    answer: async ({ tx, params }) => ({ body: runView(await stored(tx, params.id)) }),
  },
  attemptList: {
    as: 'tenant',
    async answer({ tx, params, query, credential }) {
      const { limit, cursor } = query
      const scope = { list: 'attempts', tenantId: credential.tenantId, filter: { run: params.id } }
      const before = readCursor(scope, cursor, readNumber)
      const run = await tx.runs.find(params.id, { before, limit: limit + 1 })
      if (run === undefined) throw noSuch('run', params.id)
      // the one under way is newer than all that ended
      const items = attemptViews(before === null ? run : { ...run, present: null })
      const found = { items, lookedTo: null }
      return {
        body: cut(
          scope,
          limit,
          found,
          (attempt) => attempt.number,
          (attempt) => attempt,
        ),
      }
    },
  },
  runCancel: {
    as: 'tenant',
    async answer({ tx, params, after }) {
      await cancel(tx, params.id, after)
      const run = await stored(tx, params.id)
      const { source, scheduleId, state } = run
      if (source === 'backfill' && scheduleId !== null && isTerminal(state))
        after({ kind: 'hint', hint: backfillHint(scheduleId) })
      return { body: runView(run) }
    },
  },
}

async function stored(tx: CatalogTx, id: string): Promise<RunRecord> {
  const run = await tx.runs.find(id, { before: null, limit: maxShownAttempts })
  if (run === undefined) throw noSuch('run', id)
  return run
}

/** The job to filter by: undefined for any, null where the filter names none or two different ones. */
async function wantedJob(
  tx: CatalogTx,
  name: string | undefined,
  id: string | undefined,
): Promise<string | null | undefined> {
  if (name === undefined) return id
  const named = await tx.runs.jobIdOfName(name)
  return named === undefined || (id !== undefined && id !== named) ? null : named
}

/**
 * A run may move on between two statements: claimed, handed back, released from its delay. Each look takes it
 * where it stands then; what is neither waiting nor running has ended.
 */
async function cancel(tx: CatalogTx, id: string, after: (effect: Effect) => void): Promise<void> {
  for (let look = 0; look < cancelLooks; look++) {
    const canceled = await tx.runs.cancelWaiting(id)
    if (canceled !== undefined) {
      for (const shard of canceled.timerShards) {
        after({ kind: 'hint', hint: { topic: 'timers', key: String(shard) } })
      }
      return
    }
    const sessionId = await tx.runs.requestCancel(id)
    if (sessionId !== undefined) {
      after({ kind: 'hint', hint: { topic: 'cancel', key: sessionId } })
      return
    }
    const { state } = await stored(tx, id)
    if (state !== 'pending' && state !== 'running') {
      throw new BelfryError(
        'invalid_state',
        `The run has already ended (${state}). Nothing is left to cancel.`,
      )
    }
  }
  throw new BelfryError('serialization_conflict', 'The run keeps moving on; try again.')
}
