/**
 * Endpoints of workflow runs. A request writes that one is to begin or to be canceled; what follows is the
 * resolver's, which is told by a hint.
 */
import { BelfryError } from '@belfry/contract'
import { skip } from '../../engine/catalog/workflow-acts.ts'
import { checkedRunInput } from '../../engine/catalog/workflow-input.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { PageRequest } from '../../ports/paging.ts'
import type { WorkflowRunRecord } from '../../ports/workflows.ts'
import type { Effect, Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch, noSuchRun, noSuchWorkflow } from '../missing.ts'
import { pageById } from '../page.ts'
import { workflowRunSummaryView, workflowRunTasksView, workflowRunView } from '../workflow-run-views.ts'

type WorkflowRunEndpoints = Pick<
  Endpoints,
  'workflowRunCreate' | 'workflowRunList' | 'workflowRunGet' | 'workflowRunTasks' | 'workflowRunCancel'
>

const hint: Effect = { kind: 'hint', hint: { topic: 'workflows', key: 'any' } }

export const workflowRunEndpoints: WorkflowRunEndpoints = {
  workflowRunCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, credential, after }) {
      const workflow = await tx.workflows.holdByName(body.workflow)
      if (workflow === undefined) throw await noSuchWorkflow(tx, body.workflow)
      const id = tools.ids.uuidv7(await tx.nowMs())
      const timeoutMs = workflow.definition.timeoutMs ?? null
      const input = checkedRunInput(workflow, body.input)
      // the order behind a gate looks at those of all runs
      const { concurrency, priority: usual } = workflow.definition
      const priority = body.priority ?? (concurrency === undefined ? null : usual)
      await tx.workflows.runs.insert({ id, workflow, input, timeoutMs, priority })
      const held = body.skip === undefined ? undefined : await tx.workflows.acts.hold(id)
      if (held !== undefined && body.skip !== undefined)
        await skip({ tx, keyId: credential.keyId }, held, { tasks: body.skip }, 'skip')
      after(hint)
      return { body: workflowRunView(await stored(tx, id)), location: `/v1/workflow-runs/${id}` }
    },
  },
  workflowRunList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const { limit, cursor, ...filter } = query
      const scope = { list: 'workflow-runs', tenantId: credential.tenantId, filter }
      const workflowId = await idOfName(tx, query.workflow)
      if (workflowId === null) return { body: { items: [], nextCursor: null } }
      const wanted = {
        workflowId,
        scheduleId: query.scheduleId,
        states: query.state,
        createdAfterMs: query.createdAfter === undefined ? null : Date.parse(query.createdAfter),
        createdBeforeMs: query.createdBefore === undefined ? null : Date.parse(query.createdBefore),
      }
      const read = (page: PageRequest) => tx.workflows.runs.list(page, wanted)
      return { body: await pageById(scope, { limit, cursor }, read, workflowRunSummaryView) }
    },
  },
  workflowRunGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const run = await stored(tx, params.id)
      return { body: workflowRunView(run), version: run.revision }
    },
  },
  workflowRunTasks: {
    as: 'tenant',
    async answer({ tx, params }) {
      const run = await stored(tx, params.id)
      const definition = await tx.workflows.runs.definition(run)
      if (definition === undefined) throw noSuch('workflow run', params.id)
      const waits = await tx.workflows.waits.list(run.id)
      return { body: workflowRunTasksView(run, definition, await tx.workflows.runs.taskRuns(run.id), waits) }
    },
  },
  workflowRunCancel: {
    as: 'tenant',
    async answer({ tx, params, ifMatch, after }) {
      const run = await stored(tx, params.id)
      checkIfMatch(ifMatch, run.revision)
      if (!(await tx.workflows.runs.requestCancel(run.id))) {
        const { state } = await stored(tx, params.id)
        const message = `The workflow run has ended ${state ?? ''}; there is nothing to cancel.`
        throw new BelfryError('invalid_state', message)
      }
      after(hint)
      return { body: workflowRunView(run), version: run.revision }
    },
  },
}

async function stored(tx: CatalogTx, id: string): Promise<WorkflowRunRecord> {
  const run = await tx.workflows.runs.find(id)
  if (run === undefined) throw await noSuchRun(tx, 'workflow run', id)
  return run
}

/** Undefined: no filter; null: there is no such workflow. */
async function idOfName(tx: CatalogTx, name: string | undefined): Promise<string | undefined | null> {
  if (name === undefined) return undefined
  const [found] = await tx.workflows.list({ beforeId: null, limit: 1 }, { name })
  return found?.id ?? null
}
