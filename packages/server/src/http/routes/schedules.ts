/**
 * Endpoints of schedules: when a job fires. What a request means for the timer is decided in
 * engine/catalog/schedule-editor.ts; here it is read, locked, written and hinted. Pause, resume and the like
 * stand in schedule-actions.ts.
 */
import type { ScheduleCreate, ScheduleUpdate } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import { recordedWhilePaused, recordUntil } from '../../engine/catalog/paused-span.ts'
import { planEdit, planNewSchedule, ranBefore } from '../../engine/catalog/schedule-editor.ts'
import { checkedRunInput } from '../../engine/catalog/workflow-input.ts'
import { previewOf } from '../../engine/catalog/schedule-preview.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { ScheduleRecord, ScheduleSummaryRecord, ScheduleTargetIds } from '../../ports/schedule-store.ts'
import { readCursor, readInstantMs } from '../cursor.ts'
import type { Endpoints, Tools } from '../endpoint.ts'
import { checkSchedulable } from '../gathering-rules.ts'
import { noSuch, noSuchJob, noSuchWorkflow } from '../missing.ts'
import { namedCalendars } from '../named-calendars.ts'
import { cut, pageById } from '../page.ts'
import { answered, applied, held, passedOver, settled, timerHint } from '../schedule-changes.ts'
import { checkContainer } from '../check-container.ts'
import { checkSecrets } from '../named-secrets.ts'
import { withoutMasks } from '../secret-headers.ts'
import { occurrenceView, previewView, scheduleSummaryView } from '../views.ts'

type ScheduleEndpoints = Pick<
  Endpoints,
  | 'scheduleCreate'
  | 'schedulePreview'
  | 'scheduleList'
  | 'scheduleGet'
  | 'scheduleUpdate'
  | 'scheduleDelete'
  | 'occurrenceList'
>

/** How many names are looked at to say which job was meant. */
const suggestionLimit = 200

export const scheduleEndpoints: ScheduleEndpoints = {
  scheduleCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, after }) {
      const nowMs = await tx.nowMs()
      const id = tools.ids.uuidv7(nowMs)
      const calendars = await namedCalendars(tx, body, 'hold')
      const { settings, first } = planNewSchedule(id, body, { zones: tools.zones, nowMs, calendars })
      if (body.ifPast === 'reject' && first.scheduledForMs <= nowMs) {
        const ran = await tx.schedules.ranUnderDeleted(body.name, first.scheduledForMs)
        if (ran) throw ranBefore(settings.spec, first.scheduledForMs, nowMs)
      }
      const { target, input } = await targetOf(tx, tools, body, nowMs)
      await tx.schedules.insert({ id, name: body.name, target, settings: { ...settings, input }, first })
      after(timerHint(id))
      return { ...(await answered(tx, tools, id)), location: `/v1/schedules/${id}` }
    },
  },
  schedulePreview: {
    as: 'tenant',
    async answer({ tx, tools, body }) {
      const { scheduleId, from } = body
      const current = scheduleId === undefined ? undefined : await tx.schedules.find(scheduleId)
      if (scheduleId !== undefined && current === undefined) throw noSuch('schedule', scheduleId)
      const nowMs = from === undefined ? await tx.nowMs() : Date.parse(from)
      const calendars = await namedCalendars(tx, body, 'look')
      const preview = previewOf(body, current, { zones: tools.zones, nowMs, calendars })
      return { body: previewView(preview, tools.zones) }
    },
  },
  scheduleList: {
    as: 'tenant',
    async answer({ tx, tools, query, credential }) {
      const { name, state, jobId, workflowId } = query
      const filter = { name, state, targetId: jobId ?? workflowId }
      const scope = { list: 'schedules', tenantId: credential.tenantId, filter }
      const nowMs = await tx.nowMs()
      const view = (schedule: ScheduleSummaryRecord) => scheduleSummaryView(schedule, tools.zones, nowMs)
      return { body: await pageById(scope, query, (page) => tx.schedules.list(page, filter), view) }
    },
  },
  scheduleGet: { as: 'tenant', answer: ({ tx, tools, params }) => answered(tx, tools, params.id) },
  scheduleUpdate: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, body } = call
      const calendars = await namedCalendars(tx, body, 'hold')
      const before = await held(call)
      const nowMs = await tx.nowMs()
      const onRecord = await recordedWhilePaused(tx.schedules, before, nowMs)
      const moment = { zones: tools.zones, nowMs, calendars, onRecord }
      await checkInputOf(tx, before, body)
      const draft = planEdit(before, body, moment)
      if (draft === undefined || (draft.timer.kind === 'keep' && isDelayed(before, moment.nowMs))) {
        return applied(call, before, draft)
      }
      const current = await settled(call, before)
      if (current === undefined) throw noSuch('schedule', before.id)
      return applied(call, current, current === before ? draft : planEdit(current, body, moment))
    },
  },
  scheduleDelete: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, after } = call
      const found = await held(call)
      const audited = { subjectName: found.name }
      const current = await settled(call, found)
      if (current === undefined) return { body: undefined, audited }
      const paused = current.state === 'paused'
      const nowMs = await tx.nowMs()
      const onRecord = await recordedWhilePaused(tx.schedules, current, nowMs)
      const { records } = paused ? recordUntil(current, tools.zones, nowMs, onRecord) : { records: [] }
      await tx.schedules.remove(current.id, records)
      await tx.backfills.cancelOfSchedule(current.id, 'The schedule was deleted.')
      passedOver(current.id, records, nowMs).forEach(after)
      after(timerHint(current.id))
      return { body: undefined, audited }
    },
  },
  occurrenceList: {
    as: 'tenant',
    async answer({ tx, params, query, credential }) {
      const { outcome, reason, from, to, limit, cursor } = query
      const filter = { schedule: params.id, outcome, reason, from, to }
      const scope = { list: 'occurrences', tenantId: credential.tenantId, filter }
      const before = readCursor(scope, cursor, readInstantMs)
      if (!(await tx.schedules.everExisted(params.id))) throw noSuch('schedule', params.id)
      const found = await tx.schedules.occurrences(
        params.id,
        { beforeMs: before, limit: limit + 1 },
        {
          outcome,
          reason,
          fromMs: from === undefined ? null : Date.parse(from),
          toMs: to === undefined ? null : Date.parse(to),
        },
      )
      const body = cut(scope, limit, found, (item) => item.scheduledForMs, occurrenceView)
      return { body }
    },
  },
}

/** Throws `invalid_request` where the workflow that it runs does not take the new input. */
async function checkInputOf(tx: CatalogTx, { workflowName }: ScheduleRecord, { input }: ScheduleUpdate) {
  if (workflowName === null || input === undefined) return
  const workflow = await tx.workflows.holdByName(workflowName)
  if (workflow !== undefined) checkedRunInput(workflow, input)
}

interface Target {
  readonly target: ScheduleTargetIds
  readonly input: ScheduleRecord['input']
}

/** What it runs; the input of a workflow is checked against its schema, and has its defaults put in. */
async function targetOf(tx: CatalogTx, tools: Tools, body: ScheduleCreate, nowMs: number): Promise<Target> {
  if (body.workflow === undefined) {
    const jobId = await jobOf(tx, tools, body, nowMs)
    return { target: { jobId, workflowId: null }, input: body.input }
  }
  const workflow = await tx.workflows.holdByName(body.workflow)
  if (workflow === undefined) throw await noSuchWorkflow(tx, body.workflow)
  return { target: { jobId: null, workflowId: workflow.id }, input: checkedRunInput(workflow, body.input) }
}

/** Id of the job that is named, or that is made of the inline handler under the name of the schedule. */
async function jobOf(tx: CatalogTx, tools: Tools, body: ScheduleCreate, nowMs: number): Promise<string> {
  if (body.handler === undefined) {
    const name = body.job ?? ''
    const job = await tx.jobs.holdByName(name)
    if (job === undefined) throw noSuchJob(name, await tx.jobs.names(suggestionLimit))
    checkSchedulable(job.definition, name)
    return job.id
  }
  withoutMasks(body.handler, undefined)
  tools.checkTarget(body.handler)
  await checkSecrets(tx, body.handler)
  await checkContainer(tx, tools, body.handler)
  const { handler, retry, attemptTimeoutMs, runDeadlineMs, startWithinMs, delivery, queue } = body
  const limits = { attemptTimeoutMs, runDeadlineMs, startWithinMs }
  const definition = jobDefinitionSchema.parse({ handler, retry, ...limits, delivery, queue })
  const description = `Made with the schedule "${body.name}".`
  const job = await tx.jobs.insert({ id: tools.ids.uuidv7(nowMs), name: body.name, description, definition })
  return job.id
}

/**
 * Whether its planned time is over and its start is not: it waits for its jitter or flexible window. An edit
 * that leaves the timer alone leaves that alone too.
 */
function isDelayed({ next }: ScheduleRecord, nowMs: number): boolean {
  return next !== null && next.scheduledForMs <= nowMs && next.dueAtMs > nowMs
}
