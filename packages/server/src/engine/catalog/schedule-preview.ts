/**
 * Answers when a schedule would fire, or an edited one before and after, without writing anything: by the
 * same reading as a create or an update, so that what a preview takes they take. Pure.
 */
import type { SchedulePreview } from '@belfry/contract'
import { latestInstantMs } from '@belfry/contract'
import { type ExcludedTime, keptTimes } from '../../domain/calendar/kept-times.ts'
import { describeCompiled } from '../../domain/schedule/describe-schedule.ts'
import { dstNoteOf } from '../../domain/schedule/dst-note.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { ScheduleWarning } from '../../domain/schedule/schedule-warnings.ts'
import { warningsOf } from '../../domain/schedule/schedule-warnings.ts'
import { isReadable, toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleRecord } from '../../ports/schedule-store.ts'
import type { Moment } from './said-timing.ts'
import {
  compileSaid,
  mergedTiming,
  newTiming,
  readableSpec,
  refuseOfCron,
  saysWhen,
  specOf,
} from './said-timing.ts'
import { firstTime } from './schedule-editor.ts'

export interface Preview {
  /** Those that run. */
  readonly nextMs: readonly number[]
  /** Those on the way that calendars leave out. */
  readonly excluded: readonly ExcludedTime[]
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
      ? newTiming(
          {
            ...withoutNulls(wanted),
            dialect: wanted.dialect ?? 'unix',
            onExcluded: wanted.onExcluded ?? 'skip',
            ifPast: wanted.ifPast ?? 'reject',
          },
          moment,
        )
      : mergedTiming(current, wanted, moment)
  const kept = current !== undefined && !saysWhen(wanted)
  const spec = kept ? readableSpec(current) : specOf(timing, moment, current?.spec)
  const scheduleId = current?.id
  const compiled = compileSaid(spec, timing, { zones, scheduleId, ...(kept ? {} : { nowMs }) })
  const said = toScheduleSpec(spec, timing.zone, scheduleId)
  const first = kept
    ? compiled.next(nowMs)
    : firstTime(compiled, { ...noDelay, scheduleId: scheduleId ?? '' }, timing, spec, nowMs).scheduledForMs
  const { times: nextMs, excluded } = runningFrom(compiled, first, wanted.count)
  return {
    nextMs,
    excluded,
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

const noDelay = { jitterMs: 0, flexibleWindowMs: 0 }

/** A timing that cannot be read has none. */
function timesBefore(current: ScheduleRecord, { zones, nowMs }: Moment, count: number): readonly number[] {
  if (!isReadable(current.spec)) return []
  const compiled = compileSaid(current.spec, current, { zones, scheduleId: current.id })
  return runningFrom(compiled, compiled.next(nowMs), count).times
}

export interface RunningTimes {
  readonly times: readonly number[]
  readonly excluded: readonly ExcludedTime[]
  /** Where the search ended because calendars left out too many; null where it did not. */
  readonly lookedToMs: number | null
}

/**
 * The times that run, from a planned time on. `mostLooks` is less than the schedule allows where it is given.
 */
export function runningFrom(
  compiled: CompiledSchedule,
  firstMs: number | null,
  count: number,
  mostLooks = Infinity,
): RunningTimes {
  // A time that stands in no plan, because it was over and is to run at once.
  const own = firstMs !== null && compiled.next(firstMs - 1) !== firstMs ? [firstMs] : []
  if (firstMs === null) return { times: [], excluded: [], lookedToMs: null }
  const { search } = compiled
  const bounded =
    search === undefined
      ? compiled
      : { ...compiled, search: { ...search, mostLooks: Math.min(search.mostLooks, mostLooks) } }
  const found = keptTimes(bounded, 'next', firstMs - 1, count - own.length)
  return {
    // A long rate would leave the years that can be written.
    times: [...own, ...found.times].filter((timeMs) => timeMs <= latestInstantMs),
    excluded: found.excluded.filter(({ timeMs }) => timeMs <= latestInstantMs),
    lookedToMs: found.complete ? null : found.lookedToMs,
  }
}

export interface NextRunning extends RunningTimes {
  /** The next planned time, where the schedule sleeps through it; null where it does not. */
  readonly sleptMs: number | null
}

/** The times that run from the next planned one on: those that are slept through do not. */
export function runningNext(
  compiled: CompiledSchedule,
  nextMs: number | null,
  sleepUntilMs: number | null,
  count: number,
  mostLooks: number,
): NextRunning {
  const slept = nextMs !== null && sleepUntilMs !== null && nextMs < sleepUntilMs
  const firstMs = slept ? compiled.next(sleepUntilMs - 1) : nextMs
  return { ...runningFrom(compiled, firstMs, count, mostLooks), sleptMs: slept ? nextMs : null }
}

/** Null takes something away; a schedule that is not made yet has nothing to take. */
function withoutNulls({ dayMatch, dst, startAt, endAt, ...rest }: SchedulePreview) {
  return {
    ...rest,
    dayMatch: dayMatch ?? undefined,
    dst: { gap: dst?.gap ?? undefined, overlap: dst?.overlap ?? undefined },
    startAt: startAt ?? undefined,
    endAt: endAt ?? undefined,
  }
}
