/**
 * Endpoints of runs: started on demand, listed, looked at. The state of a run follows from where it stands,
 * so nothing is written here but the places. Cancels: run-cancels.ts.
 */
import { checkDependencies } from '../../engine/catalog/asked-dependencies.ts'
import { askedRun } from '../../engine/catalog/asked-run.ts'
import { wantedStart } from '../../engine/catalog/run-maker.ts'
import type { Endpoints } from '../endpoint.ts'
import { readCursor, readNumber } from '../cursor.ts'
import { noSuch, noSuchJob } from '../missing.ts'
import { cut, pageById } from '../page.ts'
import { storedRun } from '../stored-run.ts'
import { takeRun } from '../take-runs.ts'
import { attemptViews, runSummaryView, runView } from '../views.ts'
import { wantedJob } from '../wanted-job.ts'
import { wantedWorkflowRun } from '../wanted-workflow-run.ts'

type RunEndpoints = Pick<Endpoints, 'runCreate' | 'runList' | 'runGet' | 'attemptList'>

const suggestionLimit = 200

export const runEndpoints: RunEndpoints = {
  runCreate: {
    as: 'tenant',
    ahead({ tx, body }) {
      for (const read of [tx.nowMs(), tx.runs.templateByJobName(body.job)]) read.catch(() => undefined)
    },
    async answer(call) {
      const { tx, tools, body } = call
      const nowMs = await tx.nowMs()
      wantedStart(body.runAt, nowMs)
      const template = await tx.runs.templateByJobName(body.job)
      if (template === undefined) throw noSuchJob(body.job, await tx.jobs.names(suggestionLimit))
      const { retentionDays } = tools
      const asked = askedRun(template, body, { nowMs, retentionDays })
      if (asked.dependencies !== undefined)
        await checkDependencies(tx.intake, [asked], { nowMs, retentionDays })
      return takeRun(call, asked, nowMs)
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
        workflowRun: await wantedWorkflowRun(tx, filter),
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
    answer: async ({ tx, params }) => ({ body: runView(await storedRun(tx, params.id)) }),
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
}
