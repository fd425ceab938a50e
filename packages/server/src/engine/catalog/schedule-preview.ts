/**
 * Answers when a schedule would fire, or an edited one before and after, without writing anything: by the
 * same reading as a create or an update, so that what a preview takes they take. Pure.
 */
import type { SchedulePreview } from '@belfry/contract'
import { latestInstantMs } from '@belfry/contract'
import { describeCompiled } from '../../domain/schedule/describe-schedule.ts'
import { dstNoteOf } from '../../domain/schedule/dst-note.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { ScheduleWarning } from '../../domain/schedule/schedule-warnings.ts'
import { warningsOf } from '../../domain/schedule/schedule-warnings.ts'
import { toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleRecord } from '../../ports/catalog.ts'
import type { Moment } from './said-timing.ts'
import { compileSaid, mergedTiming, newTiming, refuseOfCron, saysWhen, specOf } from './said-timing.ts'
import { firstTime } from './schedule-editor.ts'

export interface Preview {
  readonly nextMs: readonly number[]
  readonly notes: readonly { readonly atMs: number; readonly message: string }[]
  readonly description: string
  readonly warnings: readonly ScheduleWarning[]
  readonly zoneName: string
  /** Of an edit: the times of the schedule as it is. */
  readonly beforeMs: readonly number[] | null
}

/** `moment` is from where to look. Throws `invalid_schedule`. */
export function previewOf(
  wanted: SchedulePreview,
  current: ScheduleRecord | undefined,
  moment: Moment,
): Preview {
  const { zones, nowMs } = moment
  if (current === undefined && wanted.cron === undefined) refuseOfCron(wanted)
  const timing =
    current === undefined
      ? newTiming({
          ...withoutNulls(wanted),
          dialect: wanted.dialect ?? 'unix',
          ifPast: wanted.ifPast ?? 'reject',
        })
      : mergedTiming(current, wanted)
  const kept = current !== undefined && !saysWhen(wanted)
  const spec = kept ? current.spec : specOf(timing, moment, current?.spec)
  const scheduleId = current?.id
  const compiled = compileSaid(spec, timing, { zones, scheduleId, ...(kept ? {} : { nowMs }) })
  const said = toScheduleSpec(spec, timing.zone, scheduleId)
  const first = kept
    ? compiled.next(nowMs)
    : firstTime(compiled, { scheduleId: scheduleId ?? '', jitterMs: 0 }, timing, spec, nowMs).scheduledForMs
  const nextMs = timesFrom(compiled, first, wanted.count)
  return {
    nextMs,
    notes: nextMs.flatMap((atMs) => {
      const message = dstNoteOf(compiled, atMs)
      return message === null ? [] : [{ atMs, message }]
    }),
    description: describeCompiled(said, compiled),
    warnings: warningsOf(said, compiled, nowMs),
    zoneName: compiled.zoneName,
    beforeMs: current === undefined ? null : timesBefore(current, moment, wanted.count),
  }
}

function timesBefore(current: ScheduleRecord, { zones, nowMs }: Moment, count: number): readonly number[] {
  const compiled = compileSaid(current.spec, current, { zones, scheduleId: current.id })
  return timesFrom(compiled, compiled.next(nowMs), count)
}

/** From a planned time on. */
export function timesFrom(
  compiled: CompiledSchedule,
  firstMs: number | null,
  count: number,
): readonly number[] {
  const found: number[] = []
  for (let atMs = firstMs; atMs !== null && found.length < count; atMs = compiled.next(atMs)) {
    // A long rate would leave the years that can be written.
    if (atMs > latestInstantMs) break
    found.push(atMs)
  }
  return found
}

/** Null takes something away; a schedule that is not made yet has nothing to take. */
function withoutNulls({ dayMatch, dst, startAt, endAt, ...rest }: SchedulePreview) {
  return {
    ...rest,
    dayMatch: dayMatch ?? undefined,
    dst: dst ?? undefined,
    startAt: startAt ?? undefined,
    endAt: endAt ?? undefined,
  }
}
