/**
 * Endpoints of schedules: when a job fires. What a request means for the timer is decided in
 * engine/catalog/schedule-editor.ts; here it is read, locked, written and hinted.
 */
import type { ScheduleCreate } from '@belfry/contract'
import { jobDefinitionSchema, maxShownAttempts } from '@belfry/contract'
import { shardOf } from '../../domain/shard.ts'
import { laneOfRun, makeRun } from '../../engine/catalog/run-maker.ts'
import { planEdit, planNewSchedule, planPause, planResume } from '../../engine/catalog/schedule-editor.ts'
import { previewOf } from '../../engine/catalog/schedule-preview.ts'
import type { CatalogTx, ScheduleChange, ScheduleRecord, ScheduleSummaryRecord } from '../../ports/catalog.ts'
import { readCursor, readInstantMs } from '../cursor.ts'
import type { Effect, Endpoints, Tools } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch, noSuchJob } from '../missing.ts'
import { cut, pageById } from '../page.ts'
import { withoutMasks } from '../secret-headers.ts'
import { occurrenceView, previewView, runView, scheduleSummaryView, scheduleView } from '../views.ts'

type ScheduleEndpoints = Pick<
  Endpoints,
  | 'scheduleCreate'
  | 'schedulePreview'
  | 'scheduleList'
  | 'scheduleGet'
  | 'scheduleUpdate'
  | 'scheduleDelete'
  | 'schedulePause'
  | 'scheduleResume'
  | 'scheduleTrigger'
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
      const { settings, first } = planNewSchedule(id, body, { zones: tools.zones, nowMs })
      const jobId = await jobOf(tx, tools, body, nowMs)
      await tx.schedules.insert({ id, name: body.name, jobId, settings, first })
      after(timerHint(id))
      return { ...(await read(tx, tools, id)), location: `/v1/schedules/${id}` }
    },
  },
  schedulePreview: {
    as: 'tenant',
    async answer({ tx, tools, body }) {
      const { scheduleId, from } = body
      const current = scheduleId === undefined ? undefined : await tx.schedules.find(scheduleId)
      if (scheduleId !== undefined && current === undefined) throw noSuch('schedule', scheduleId)
      const nowMs = from === undefined ? await tx.nowMs() : Date.parse(from)
      const preview = previewOf(body, current, { zones: tools.zones, nowMs })
      return { body: previewView(preview, tools.zones) }
    },
  },
  scheduleList: {
    as: 'tenant',
    async answer({ tx, tools, query, credential }) {
      const { name, state, jobId } = query
      const filter = { name, state, jobId }
      const scope = { list: 'schedules', tenantId: credential.tenantId, filter }
      const view = (schedule: ScheduleSummaryRecord) => scheduleSummaryView(schedule, tools.zones)
      return { body: await pageById(scope, query, (page) => tx.schedules.list(page, filter), view) }
    },
  },
  scheduleGet: { as: 'tenant', answer: ({ tx, tools, params }) => read(tx, tools, params.id) },
  scheduleUpdate: {
    as: 'tenant',
    async answer({ tx, tools, params, body, ifMatch, after }) {
      const current = await locked(tx, params.id, ifMatch)
      const change = planEdit(current, body, { zones: tools.zones, nowMs: await tx.nowMs() })
      return apply(tx, tools, current, change, after)
    },
  },
  scheduleDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch, after }) {
      const current = await locked(tx, params.id, ifMatch)
      await tx.schedules.remove(current.id)
      after(timerHint(current.id))
      return { body: undefined }
    },
  },
  schedulePause: {
    as: 'tenant',
    async answer({ tx, tools, params, body, ifMatch, after }) {
      const current = await locked(tx, params.id, ifMatch)
      return apply(tx, tools, current, planPause(current, body.reason), after)
    },
  },
  scheduleResume: {
    as: 'tenant',
    async answer({ tx, tools, params, ifMatch, after }) {
      const current = await locked(tx, params.id, ifMatch)
      const change = planResume(current, { zones: tools.zones, nowMs: await tx.nowMs() })
      return apply(tx, tools, current, change, after)
    },
  },
  scheduleTrigger: {
    as: 'tenant',
    async answer({ tx, tools, params, body, credential, after }) {
      const schedule = await tx.schedules.find(params.id)
      if (schedule === undefined) throw noSuch('schedule', params.id)
      const template = await tx.runs.templateByJobId(schedule.jobId)
      if (template === undefined) throw noSuchJob(schedule.jobName, [])
      const parts = {
        ids: tools.ids,
        tags: tools.tags,
        tenantId: credential.tenantId,
        nowMs: await tx.nowMs(),
      }
      const input = body.input === undefined ? schedule.input : body.input
      await tools.tags.ready([laneOfRun(template, credential.tenantId, undefined)])
      const run = makeRun(parts, template, {
        source: 'trigger',
        scheduleId: schedule.id,
        input,
        runAtMs: null,
      })
      await tx.runs.insert(run)
      after({ kind: 'hint', hint: { topic: 'ready', key: run.queue } })
      after({ kind: 'enqueued', queue: run.queue, source: 'trigger' })
      const stored = await tx.runs.find(run.id, { before: null, limit: maxShownAttempts })
      if (stored === undefined) throw noSuch('run', run.id)
      return { body: runView(stored), location: `/v1/runs/${run.id}` }
    },
  },
  occurrenceList: {
    as: 'tenant',
    async answer({ tx, params, query, credential }) {
      const { outcome, from, to, limit, cursor } = query
      const filter = { schedule: params.id, outcome, from, to }
      const scope = { list: 'occurrences', tenantId: credential.tenantId, filter }
      const before = readCursor(scope, cursor, readInstantMs)
      if (!(await tx.schedules.everExisted(params.id))) throw noSuch('schedule', params.id)
      const found = await tx.schedules.occurrences(
        params.id,
        { beforeMs: before, limit: limit + 1 },
        {
          outcome,
          fromMs: from === undefined ? null : Date.parse(from),
          toMs: to === undefined ? null : Date.parse(to),
        },
      )
      const body = cut(scope, limit, found, (item) => item.scheduledForMs, occurrenceView)
      return { body }
    },
  },
}

/** Id of the job that is named, or that is made of the inline handler under the name of the schedule. */
async function jobOf(tx: CatalogTx, tools: Tools, body: ScheduleCreate, nowMs: number): Promise<string> {
  if (body.handler === undefined) {
    const name = body.job ?? ''
    const job = await tx.jobs.holdByName(name)
    if (job === undefined) throw noSuchJob(name, await tx.jobs.names(suggestionLimit))
    return job.id
  }
  withoutMasks(body.handler, undefined)
  tools.checkTarget(body.handler)
  const { handler, retry, attemptTimeoutMs, delivery, queue } = body
  const definition = jobDefinitionSchema.parse({ handler, retry, attemptTimeoutMs, delivery, queue })
  const description = `Made with the schedule "${body.name}".`
  const job = await tx.jobs.insert({ id: tools.ids.uuidv7(nowMs), name: body.name, description, definition })
  return job.id
}

async function locked(tx: CatalogTx, id: string, ifMatch: string | undefined): Promise<ScheduleRecord> {
  const current = await tx.schedules.lock(id)
  if (current === undefined) throw noSuch('schedule', id)
  checkIfMatch(ifMatch, current.version)
  return current
}

async function apply(
  tx: CatalogTx,
  tools: Tools,
  current: ScheduleRecord,
  change: ScheduleChange | undefined,
  after: (effect: Effect) => void,
) {
  if (change !== undefined) {
    await tx.schedules.change(current.id, change)
    if (change.timer.kind !== 'keep') after(timerHint(current.id))
  }
  return read(tx, tools, current.id)
}

async function read(tx: CatalogTx, tools: Tools, id: string) {
  const schedule = await tx.schedules.find(id)
  if (schedule === undefined) throw noSuch('schedule', id)
  return { body: scheduleView(schedule, tools.zones, await tx.nowMs()), version: schedule.version }
}

function timerHint(id: string): Effect {
  return { kind: 'hint', hint: { topic: 'timers', key: String(shardOf(id)) } }
}
