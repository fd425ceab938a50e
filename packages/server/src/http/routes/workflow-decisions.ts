/**
 * Endpoints by which tasks that wait are told something. An approval ends its task there and then; a signal
 * is kept, and the resolver ends what waits for it. Both tell the resolver by an event, and by a hint.
 */
import type { WorkflowDefinition, WorkflowTask } from '@belfry/contract'
import { BelfryError, nearest } from '@belfry/contract'
import { unpackStates } from '../../domain/workflow/stored-states.ts'
import { isEnded } from '../../domain/workflow/progress.ts'
import { tasksOf } from '../../engine/catalog/workflow-editor.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { SaidBy } from '../../ports/task-waits.ts'
import type { WorkflowRunRecord } from '../../ports/workflows.ts'
import type { Answer, Effect, Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { openApprovalView } from '../task-wait-views.ts'
import { workflowRunView } from '../workflow-run-views.ts'

type DecisionEndpoints = Pick<
  Endpoints,
  'approvalList' | 'workflowRunApprove' | 'workflowRunReject' | 'workflowRunSignal'
>

const hint: Effect = { kind: 'hint', hint: { topic: 'workflows', key: 'any' } }

interface Asked {
  readonly task: string
  readonly item?: number | undefined
  readonly reason?: string | undefined
}

export const workflowDecisionEndpoints: DecisionEndpoints = {
  approvalList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const scope = { list: 'approvals', tenantId: credential.tenantId, filter: {} }
      const read = (page: Parameters<typeof tx.workflows.waits.openApprovals>[0]) =>
        tx.workflows.waits.openApprovals(page)
      return { body: await pageById(scope, query, read, openApprovalView) }
    },
  },
  workflowRunApprove: {
    as: 'tenant',
    async answer({ tx, params, body, credential, ifMatch, after }) {
      const decided = await decide(tx, params.id, { ...body, ifMatch }, true, credential.keyId)
      after(hint)
      return decided
    },
  },
  workflowRunReject: {
    as: 'tenant',
    async answer({ tx, params, body, credential, ifMatch, after }) {
      const decided = await decide(tx, params.id, { ...body, ifMatch }, false, credential.keyId)
      after(hint)
      return decided
    },
  },
  workflowRunSignal: {
    as: 'tenant',
    async answer({ tx, params, body, credential, ifMatch, after }) {
      const { run, definition } = await openRun(tx, params.id, ifMatch)
      checkSignal(run, definition, body.signal)
      const by = await saidBy(tx, credential.keyId)
      await tx.workflows.waits.signal(run.id, { name: body.signal, payload: body.payload, by })
      after(hint)
      return { body: workflowRunView(run) }
    },
  },
}

async function openRun(
  tx: CatalogTx,
  id: string,
  ifMatch: string | undefined,
): Promise<{ readonly run: WorkflowRunRecord; readonly definition: WorkflowDefinition }> {
  const run = await tx.workflows.runs.find(id)
  const definition = run && (await tx.workflows.runs.definition(run))
  if (run === undefined || definition === undefined) throw noSuch('workflow run', id)
  checkIfMatch(ifMatch, run.revision)
  if (run.state !== null)
    throw new BelfryError('invalid_state', `The workflow run has ended ${run.state}; nothing waits in it.`)
  return { run, definition }
}

async function saidBy(tx: CatalogTx, keyId: string): Promise<SaidBy> {
  return { keyId, name: await tx.workflows.acts.keyName(keyId) }
}

async function decide(
  tx: CatalogTx,
  id: string,
  asked: Asked & { readonly ifMatch: string | undefined },
  approved: boolean,
  keyId: string,
): Promise<Answer<'workflowRunApprove' | 'workflowRunReject'>> {
  const { run, definition } = await openRun(tx, id, asked.ifMatch)
  const task = approvalTask(definition, asked)
  const by = await saidBy(tx, keyId)
  const item = asked.item ?? null
  const decision = { workflowRunId: id, task, item, approved, by, reason: asked.reason ?? null }
  const state = await tx.workflows.waits.decide(decision)
  if (state === undefined) throw await notWaiting(tx, run, task, asked)
  const body = { workflowRunId: id, task: asked.task, item, state }
  return { body, audited: { subjectName: run.workflowName } }
}

/** The number of a task that waits for an approval. Throws where there is none, or it is of another kind. */
function approvalTask(definition: WorkflowDefinition, { task: id, item }: Asked): number {
  const tasks = tasksOf(definition)
  const index = tasks.findIndex(({ task }) => task.id === id)
  const task = tasks[index]?.task
  const approvals = tasks.filter((each) => each.task.approval !== undefined).map((each) => each.task.id)
  if (task === undefined) {
    const meant = nearest(id, approvals)
    const fix = meant === undefined ? '' : ` Did you mean "${meant}"?`
    throw faultAt('not_found', '/task', `There is no task "${id}" in this workflow run.${fix}`)
  }
  if (task.approval === undefined) {
    const others = approvals.length === 0 ? '' : `; approvals here are ${approvals.slice(0, 10).join(', ')}`
    throw faultAt('invalid_request', '/task', `The task "${id}" is no approval${others}.`)
  }
  if (isMapped(task) !== (item !== undefined)) {
    const message = isMapped(task)
      ? `The task "${id}" runs for each item; say which one is meant, counted from 0.`
      : `The task "${id}" has no items; leave item out.`
    throw faultAt('invalid_request', '/item', message)
  }
  return index
}

const isMapped = ({ forEach, matrix }: WorkflowTask): boolean => forEach !== undefined || matrix !== undefined

function faultAt(code: 'not_found' | 'invalid_request', pointer: string, message: string): BelfryError {
  return new BelfryError(code, message, { errors: [{ pointer, message }] })
}

async function notWaiting(
  tx: CatalogTx,
  run: WorkflowRunRecord,
  task: number,
  { task: id, item }: Asked,
): Promise<BelfryError> {
  const what = item === undefined ? `The task "${id}"` : `Item ${item} of the task "${id}"`
  const state = unpackStates(run.states)[task] ?? 'waiting_for_dependencies'
  if (state === 'waiting_for_dependencies')
    return new BelfryError('invalid_state', `${what} has not begun: what it needs has not ended.`)
  const wait = (await tx.workflows.waits.list(run.id)).find((each) => each.task === task)
  const by = wait?.by === null || wait === undefined ? '' : `, by ${wait.by.name}`
  const how = item === undefined ? ` It ended ${wait?.state ?? state}${by}.` : ''
  return new BelfryError('invalid_state', `${what} does not wait for an approval any more.${how}`)
}

/** Some task that has not ended waits for it. */
function checkSignal(run: WorkflowRunRecord, definition: WorkflowDefinition, signal: string): void {
  const states = unpackStates(run.states)
  const waits = tasksOf(definition).flatMap(({ task: { id, wait } }, index) =>
    wait !== undefined && 'signal' in wait ? [{ id, index, name: wait.signal }] : [],
  )
  const its = waits.filter(({ name }) => name === signal)
  if (its.length === 0) {
    const meant = nearest(
      signal,
      waits.map(({ name }) => name),
    )
    const fix = meant === undefined ? '' : ` Did you mean "${meant}"?`
    throw faultAt('not_found', '/signal', `No task of this workflow waits for the signal "${signal}".${fix}`)
  }
  if (its.some(({ index }) => !isEnded(states[index] ?? 'waiting_for_dependencies'))) return
  const names = its.map(({ id }) => `"${id}"`).join(', ')
  const message = `What waits for the signal "${signal}" has ended already: ${names}.`
  throw new BelfryError('invalid_state', message)
}
