/**
 * The trigger of a schedule that runs a workflow: a workflow run, out of turn. With a nominal time its data
 * interval is that of the time.
 */
import { BelfryError } from '@belfry/contract'
import { intervalStart } from '../domain/data-interval.ts'
import { wantedNominal } from '../engine/catalog/run-maker.ts'
import { compileCurrent } from '../engine/catalog/schedule-editor.ts'
import { checkedRunInput } from '../engine/catalog/workflow-input.ts'
import type { CatalogTx } from '../ports/catalog.ts'
import type { ScheduleRecord } from '../ports/schedule-store.ts'
import type { Call } from './endpoint.ts'
import { noSuch, noSuchWorkflow } from './missing.ts'
import { workflowRunView } from './workflow-run-views.ts'

type Triggering = Pick<Call<'scheduleTrigger', CatalogTx>, 'tx' | 'tools' | 'body' | 'after'>

export async function triggerWorkflow({ tx, tools, body, after }: Triggering, schedule: ScheduleRecord) {
  if (body.dedupeKey !== undefined) {
    const message = 'has no meaning for a workflow; send the header Idempotency-Key instead'
    throw new BelfryError('invalid_request', `The dedupe key ${message}.`, {
      errors: [{ pointer: '/dedupeKey', message }],
    })
  }
  const name = schedule.workflowName ?? ''
  const workflow = await tx.workflows.holdByName(name)
  if (workflow === undefined) throw await noSuchWorkflow(tx, name)
  const nowMs = await tx.nowMs()
  const scheduledForMs = wantedNominal(body.scheduledFor, nowMs)
  const intervalStartMs =
    scheduledForMs === null ? null : intervalStart(compileCurrent(schedule, tools), scheduledForMs)
  const id = tools.ids.uuidv7(nowMs)
  await tx.workflows.runs.insert({
    id,
    workflow,
    input: checkedRunInput(workflow, body.input === undefined ? schedule.input : body.input),
    timeoutMs: workflow.definition.timeoutMs ?? null,
    priority: null,
    origin: { source: 'trigger', scheduleId: schedule.id, scheduledForMs, intervalStartMs, causeId: null },
  })
  if (scheduledForMs !== null)
    await tx.backfills.insertExtraRun({ scheduleId: schedule.id, scheduledForMs, runId: id })
  after({ kind: 'hint', hint: { topic: 'workflows', key: 'any' } })
  const run = await tx.workflows.runs.find(id)
  if (run === undefined) throw noSuch('workflow run', id)
  return { body: workflowRunView(run), location: `/v1/workflow-runs/${id}` }
}
