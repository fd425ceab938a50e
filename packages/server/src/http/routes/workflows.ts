/**
 * Endpoints of workflows: what is stored under a name, its versions and what differs between them. How a
 * definition is judged is in engine/catalog/workflow-editor.ts.
 */
import type { WorkflowDefinition, WorkflowFile, WorkflowTask } from '@belfry/contract'
import { BelfryError, maxShownChanges } from '@belfry/contract'
import { isDeepStrictEqual } from 'node:util'
import { differences } from '../../domain/workflow/diff.ts'
import { triggerCircles } from '../../domain/workflow/trigger-circles.ts'
import {
  checkDefinition,
  checkJobs,
  checkWorkflows,
  namedJobs,
  namedWorkflows,
  ownJobs,
  type PlacedTask,
  taskJobs,
  tasksOf,
} from '../../engine/catalog/workflow-editor.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { NewWorkflowVersion, WorkflowRecord } from '../../ports/workflows.ts'
import { readCursor, readNumber } from '../cursor.ts'
import type { Endpoints, Tools } from '../endpoint.ts'
import { checkContainer } from '../check-container.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { cut, pageById } from '../page.ts'
import { checkSecrets } from '../named-secrets.ts'
import { withoutMasks } from '../secret-headers.ts'
import { workflowSummaryView, workflowVersionView, workflowView } from '../workflow-views.ts'

type WorkflowEndpoints = Pick<
  Endpoints,
  'workflowApply' | 'workflowList' | 'workflowGet' | 'workflowVersionList' | 'workflowDiff' | 'workflowDelete'
>

const mostSuggested = 1_000
/** Looked through for a circle. */
const mostTriggerEdges = 10_000

export const workflowEndpoints: WorkflowEndpoints = {
  workflowApply: {
    as: 'tenant',
    async answer({ tx, tools, body, ifMatch }) {
      const { name, description, ...sent } = body
      checkDefinition(name, sent)
      const current = await tx.workflows.lockByName(name)
      checkIfMatch(ifMatch, current?.version ?? 0)
      const definition = checkedHandlers(sent, current?.definition, tools)
      if (
        current !== undefined &&
        description === current.description &&
        isDeepStrictEqual(current.definition, definition)
      )
        return answerOf(tx, current, 'unchanged')
      const id = current?.id ?? tools.ids.uuidv7(await tx.nowMs())
      const version = await newVersion(tx, tools, id, { name, description, ...definition })
      return current === undefined
        ? answerOf(tx, await tx.workflows.insert({ id, name, ...version }), 'created')
        : answerOf(tx, await tx.workflows.update(id, version), 'changed')
    },
  },
  workflowList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'workflows', tenantId: credential.tenantId, filter }
      const read = (page: Parameters<typeof tx.workflows.list>[0]) => tx.workflows.list(page, filter)
      return { body: await pageById(scope, query, read, workflowSummaryView) }
    },
  },
  workflowGet: {
    as: 'tenant',
    async answer({ tx, params, query }) {
      const workflow = await versionOf(tx, params.id, query.version)
      return { body: workflowView(workflow), version: workflow.version }
    },
  },
  workflowVersionList: {
    as: 'tenant',
    async answer({ tx, params, query, credential }) {
      const { limit, cursor } = query
      const filter = { workflow: params.id }
      const scope = { list: 'workflow-versions', tenantId: credential.tenantId, filter }
      const beforeVersion = readCursor(scope, cursor, readNumber)
      await versionOf(tx, params.id)
      const items = await tx.workflows.versions(params.id, { beforeVersion, limit: limit + 1 })
      const found = { items, lookedTo: null }
      return { body: cut(scope, limit, found, ({ version }) => version, workflowVersionView) }
    },
  },
  workflowDiff: {
    as: 'tenant',
    async answer({ tx, params, query }) {
      const after = await versionOf(tx, params.id, query.to, '/query/to')
      const from = query.from ?? Math.max(1, after.version - 1)
      const before = await versionOf(tx, params.id, from, '/query/from')
      const changes = differences(before, after)
      const shown = changes.slice(0, maxShownChanges)
      return {
        body: { from: before.version, to: after.version, changes: shown, changesTotal: changes.length },
      }
    },
  },
  workflowDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch }) {
      const workflow = await tx.workflows.lock(params.id)
      if (workflow === undefined) throw noSuch('workflow', params.id)
      checkIfMatch(ifMatch, workflow.version)
      const user = await tx.jobs.userOf(workflow.id)
      if (user !== undefined) {
        const message = `The ${user} runs the workflow "${workflow.name}" as a task; take that out first.`
        throw new BelfryError('in_use', message)
      }
      const schedule = await tx.workflows.scheduleOf(workflow.id)
      if (schedule !== undefined) {
        const what = `The schedule "${schedule}" runs the workflow "${workflow.name}"`
        const message = `${what}; delete that schedule first.`
        throw new BelfryError('in_use', message)
      }
      await tx.workflows.remove(workflow.id)
      return { body: undefined, audited: { subjectName: workflow.name } }
    },
  },
}

async function answerOf(
  tx: CatalogTx,
  workflow: WorkflowRecord,
  outcome: 'created' | 'changed' | 'unchanged',
) {
  const { name, definition } = workflow
  const isTriggered = definition.triggers.some((trigger) => 'workflow' in trigger)
  const edges = isTriggered ? await tx.workflows.triggerEdges(mostTriggerEdges) : []
  const view = workflowView(workflow)
  const warnings = [...view.warnings, ...triggerCircles(name, definition, edges)]
  return { body: { ...view, warnings, outcome }, version: workflow.version }
}

async function versionOf(
  tx: CatalogTx,
  id: string,
  version?: number,
  pointer = '/query/version',
): Promise<WorkflowRecord> {
  const found = await tx.workflows.find(id, version)
  if (found !== undefined) return found
  const newest = version === undefined ? undefined : await tx.workflows.find(id)
  if (newest === undefined) throw noSuch('workflow', id)
  const message = `names version ${version}, but the newest one is ${newest.version}`
  throw new BelfryError('not_found', `The workflow "${newest.name}" has no version ${version}.`, {
    errors: [{ pointer, message }],
  })
}

/** What is written, with the jobs that its tasks run. */
async function newVersion(
  tx: CatalogTx,
  tools: Tools,
  id: string,
  { name, description, ...definition }: WorkflowFile,
): Promise<NewWorkflowVersion> {
  const wanted = namedJobs(definition)
  const jobs = await tx.workflows.holdJobs(wanted)
  if (jobs.size < wanted.length) checkJobs(definition, jobs, await tx.jobs.names(mostSuggested))
  const subs = namedWorkflows(definition)
  const workflows = await tx.workflows.holdWorkflows(subs)
  if (workflows.size < subs.length)
    checkWorkflows(definition, workflows, await tx.workflows.names(mostSuggested))
  for (const { task, pointer } of tasksOf(definition)) {
    if (task.handler === undefined) continue
    await checkSecrets(tx, task.handler, `${pointer}/handler`)
    await checkContainer(tx, tools, task.handler, `${pointer}/handler`)
  }
  const nowMs = await tx.nowMs()
  const own = ownJobs(name, definition, jobs).map((job) => ({ ...job, newId: tools.ids.uuidv7(nowMs) }))
  const kept = await tx.workflows.keepOwnJobs(id, own)
  return { description, definition, taskJobs: taskJobs(name, definition, jobs, kept, workflows) }
}

/**
 * The definition with stored values in the places of masks, each target judged; `before` is the version that
 * is there. Faults name the place of their task.
 */
function checkedHandlers(
  definition: WorkflowDefinition,
  before: WorkflowDefinition | undefined,
  tools: Tools,
): WorkflowDefinition {
  const olds = new Map((before === undefined ? [] : tasksOf(before)).map(({ task }) => [task.id, task]))
  const checked = new Map(
    tasksOf(definition).map((placed) => [placed.task, checkedTask(placed, olds.get(placed.task.id), tools)]),
  )
  const of = (tasks: readonly WorkflowTask[]): WorkflowTask[] =>
    tasks.map((task) => checked.get(task) ?? task)
  const { tasks, onFailure } = definition
  return { ...definition, tasks: of(tasks), onFailure: of(onFailure), finally: of(definition.finally) }
}

function checkedTask(
  { task, pointer }: PlacedTask,
  before: WorkflowTask | undefined,
  tools: Tools,
): WorkflowTask {
  if (task.handler === undefined) return task
  try {
    const handler = withoutMasks(task.handler, before?.handler)
    tools.checkTarget(handler)
    return { ...task, handler }
  } catch (error) {
    if (!(error instanceof BelfryError)) throw error
    const errors = error.errors.map((fault) => ({ ...fault, pointer: `${pointer}${fault.pointer}` }))
    throw new BelfryError(error.code, `Task "${task.id}": ${error.message}`, { cause: error, errors })
  }
}
