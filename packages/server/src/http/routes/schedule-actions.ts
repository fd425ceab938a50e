/**
 * Endpoints of what people do with a schedule: pause, resume, skip, sleep, wake, trigger. What each means is
 * decided in engine/catalog/schedule-actions.ts; the steps that they share are http/schedule-changes.ts.
 */
import { backfillHint } from '../../engine/backfill-hints.ts'
import { wantedDedupe } from '../../engine/catalog/asked-run.ts'
import { backfillDefaults, startBackfill } from '../../engine/catalog/backfill-maker.ts'
import { recordedWhilePaused } from '../../engine/catalog/paused-span.ts'
import { wantedNominal } from '../../engine/catalog/run-maker.ts'
import {
  planPause,
  planResume,
  planSkip,
  planSleep,
  planWake,
} from '../../engine/catalog/schedule-actions.ts'
import { compileCurrent } from '../../engine/catalog/schedule-editor.ts'
import type { Endpoints } from '../endpoint.ts'
import { noSuch, noSuchJob } from '../missing.ts'
import { applied, held, heldAndSettled } from '../schedule-changes.ts'
import { takeRun } from '../take-runs.ts'
import { triggerWorkflow } from '../trigger-workflow.ts'

type ActionEndpoints = Pick<
  Endpoints,
  'schedulePause' | 'scheduleResume' | 'scheduleSkip' | 'scheduleSleep' | 'scheduleWake' | 'scheduleTrigger'
>

export const scheduleActionEndpoints: ActionEndpoints = {
  schedulePause: {
    as: 'tenant',
    async answer(call) {
      const current = await heldAndSettled(call)
      return applied(call, current, planPause(current, call.body.reason, await call.tx.nowMs()))
    },
  },
  scheduleResume: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, body, after } = call
      const current = await held(call)
      const nowMs = await tx.nowMs()
      const onRecord = await recordedWhilePaused(tx.schedules, current, nowMs)
      const answer = await applied(
        call,
        current,
        planResume(current, { zones: tools.zones, nowMs, onRecord }),
      )
      if (body.backfillFrom !== undefined) {
        const pointer = '/backfillFrom'
        const range = { ...backfillDefaults, fromMs: Date.parse(body.backfillFrom), toMs: null }
        const times = compileCurrent(current, tools)
        const parts = { backfills: tx.backfills, ids: tools.ids, nowMs, times }
        await startBackfill(parts, current, range, { from: pointer, to: pointer })
        after({ kind: 'hint', hint: backfillHint(current.id) })
      }
      return answer
    },
  },
  scheduleSkip: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, body } = call
      const current = await heldAndSettled(call)
      const change = planSkip(current, body, { zones: tools.zones, nowMs: await tx.nowMs() })
      return applied(call, current, change)
    },
  },
  scheduleSleep: {
    as: 'tenant',
    async answer(call) {
      const current = await heldAndSettled(call)
      const sleep = { untilMs: Date.parse(call.body.until), reason: call.body.reason }
      return applied(call, current, planSleep(current, sleep, await call.tx.nowMs()))
    },
  },
  scheduleWake: {
    as: 'tenant',
    async answer(call) {
      const current = await heldAndSettled(call)
      return applied(call, current, planWake(current, await call.tx.nowMs()))
    },
  },
  scheduleTrigger: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, params, body } = call
      const schedule = await tx.schedules.find(params.id)
      if (schedule === undefined) throw noSuch('schedule', params.id)
      const audited = { subjectName: schedule.name }
      if (schedule.jobId === null) return { ...(await triggerWorkflow(call, schedule)), audited }
      const template = await tx.runs.templateByJobId(schedule.jobId)
      if (template === undefined) throw noSuchJob(schedule.jobName ?? '', [])
      const nowMs = await tx.nowMs()
      const scheduledForMs = wantedNominal(body.scheduledFor, nowMs)
      const asked = {
        template,
        source: 'trigger',
        scheduleId: schedule.id,
        input: body.input === undefined ? schedule.input : body.input,
        runAtMs: null,
        scheduledForMs,
        dedupe: wantedDedupe(body, tools.retentionDays),
        gathers: false,
      } as const
      const answer = await takeRun(call, asked, nowMs)
      if (scheduledForMs !== null && !answer.joined) {
        const { id: runId } = answer.body
        await tx.backfills.insertExtraRun({ scheduleId: schedule.id, scheduledForMs, runId })
      }
      return { ...answer, audited }
    },
  },
}
