/**
 * Decides what a request to make or change a schedule means: is the timing valid, when does it fire first or
 * next, does the timer move. Pure: it gets the database's time and the zone data, and answers what to write.
 *
 *   1. The watermark of an edit or a resume is now: the next planned time lies strictly after it. Nothing
 *      fires for the past, and a time that is already claimed still runs once.
 *   2. Only a change of timing moves the timer. A change of jitter moves its start and not the planned time.
 *   3. A time that is over is refused, unless by at most a minute or with `ifPast: runNow`, which plans it
 *      for now, without jitter.
 *   4. What can never fire is refused with the reason.
 */
import type { ScheduleCreate, ScheduleUpdate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { PlannedTime } from '../../domain/firing.ts'
import { plannedTimeAfter } from '../../domain/firing.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { StoredSpec } from '../../domain/stored-spec.ts'
import type { ScheduleChange, ScheduleRecord, ScheduleSettings } from '../../ports/catalog.ts'
import { pastGraceMs } from './run-maker.ts'
import type { Moment, SaidTiming } from './said-timing.ts'
import {
  compileSaid,
  invalidSchedule,
  mergedTiming,
  newTiming,
  sameSpec,
  saysWhen,
  specOf,
} from './said-timing.ts'

/** Settings and first planned time of a new schedule. Throws `invalid_schedule`. */
export function planNewSchedule(
  id: string,
  wanted: ScheduleCreate,
  moment: Moment,
): { settings: ScheduleSettings; first: PlannedTime } {
  const timing = newTiming(wanted)
  const spec = specOf(timing, moment)
  const compiled = compileSaid(spec, timing, { ...moment, scheduleId: id })
  const jitter = { scheduleId: id, jitterMs: wanted.jitterMs }
  return {
    settings: {
      description: wanted.description,
      spec,
      zone: compiled.zoneName,
      zoneDataVersion: moment.zones.dataVersion,
      startAtMs: timing.startAtMs,
      endAtMs: timing.endAtMs,
      jitterMs: wanted.jitterMs,
      catchUp: wanted.catchUp,
      overlap: wanted.overlap,
      input: wanted.input,
    },
    first: firstTime(compiled, jitter, timing, spec, moment.nowMs),
  }
}

/** What an edit writes; undefined where it changes nothing. Throws `invalid_schedule`. */
export function planEdit(
  current: ScheduleRecord,
  wanted: ScheduleUpdate,
  moment: Moment,
): ScheduleChange | undefined {
  const timing = mergedTiming(current, wanted)
  const spec = saysWhen(wanted) ? specOf(timing, moment, current.spec) : current.spec
  const settings: ScheduleSettings = {
    description: wanted.description ?? current.description,
    spec,
    zone: timing.zone ?? current.zone,
    zoneDataVersion: current.zoneDataVersion,
    startAtMs: timing.startAtMs,
    endAtMs: timing.endAtMs,
    jitterMs: wanted.jitterMs ?? current.jitterMs,
    catchUp: mergedCatchUp(current, wanted),
    overlap: wanted.overlap ?? current.overlap,
    input: wanted.input === undefined ? current.input : wanted.input,
  }
  if (timingMoved(current, settings)) return moveTiming(current, settings, timing, moment)
  if (settings.jitterMs !== current.jitterMs && current.next !== null) {
    const compiled = compileSaid(spec, timing, { zones: moment.zones, scheduleId: current.id })
    const jitter = { scheduleId: current.id, jitterMs: settings.jitterMs }
    const next = sameTime(compiled, jitter, current.next.scheduledForMs)
    return { ...unmoved(current, settings), timer: { kind: 'set', next } }
  }
  return sameSettings(current, settings) ? undefined : unmoved(current, settings)
}

/** Stops it until it is resumed. */
export function planPause(current: ScheduleRecord, reason: string): ScheduleChange {
  if (current.state !== 'active')
    throw wrongState(current, 'paused', 'Only an active schedule can be paused.')
  return { settings: current, state: 'paused', pausedReason: reason, timer: { kind: 'drop' } }
}

/** Goes on from now: what fell due while it was paused does not run. */
export function planResume(current: ScheduleRecord, moment: Moment): ScheduleChange {
  if (current.state !== 'paused')
    throw wrongState(current, 'resumed', 'Only a paused schedule can be resumed.')
  const compiled = compileSaid(current.spec, current, { zones: moment.zones, scheduleId: current.id })
  const settings = { ...current, zoneDataVersion: moment.zones.dataVersion }
  const next = plannedTimeAfter(
    { scheduleId: current.id, jitterMs: current.jitterMs },
    compiled,
    moment.nowMs,
  )
  return next === null
    ? { settings, pausedReason: null, state: 'completed', timer: { kind: 'drop' } }
    : { settings, pausedReason: null, state: 'active', timer: { kind: 'set', next } }
}

function moveTiming(
  current: ScheduleRecord,
  settings: ScheduleSettings,
  timing: SaidTiming,
  { zones, nowMs }: Moment,
): ScheduleChange {
  const compiled = compileSaid(settings.spec, timing, { zones, scheduleId: current.id, nowMs })
  const jitter = { scheduleId: current.id, jitterMs: settings.jitterMs }
  const next = firstTime(compiled, jitter, timing, settings.spec, nowMs)
  const written = { ...settings, zone: compiled.zoneName, zoneDataVersion: zones.dataVersion }
  if (current.state === 'paused') {
    return { settings: written, state: 'paused', pausedReason: current.pausedReason, timer: { kind: 'drop' } }
  }
  return { settings: written, state: 'active', pausedReason: null, timer: { kind: 'set', next } }
}

function unmoved(current: ScheduleRecord, settings: ScheduleSettings): ScheduleChange {
  return { settings, state: current.state, pausedReason: current.pausedReason, timer: { kind: 'keep' } }
}

function mergedCatchUp({ catchUp }: ScheduleRecord, wanted: ScheduleUpdate): ScheduleSettings['catchUp'] {
  return {
    policy: wanted.catchUp?.policy ?? catchUp.policy,
    windowMs: wanted.catchUp?.windowMs ?? catchUp.windowMs,
    maxRuns: wanted.catchUp?.maxRuns ?? catchUp.maxRuns,
  }
}

function timingMoved(current: ScheduleRecord, settings: ScheduleSettings): boolean {
  return (
    !sameSpec(current.spec, settings.spec) ||
    current.zone !== settings.zone ||
    current.startAtMs !== settings.startAtMs ||
    current.endAtMs !== settings.endAtMs
  )
}

function sameSettings(current: ScheduleRecord, settings: ScheduleSettings): boolean {
  const { catchUp } = settings
  return (
    current.description === settings.description &&
    current.jitterMs === settings.jitterMs &&
    current.overlap === settings.overlap &&
    current.catchUp.policy === catchUp.policy &&
    current.catchUp.windowMs === catchUp.windowMs &&
    current.catchUp.maxRuns === catchUp.maxRuns &&
    current.input === settings.input
  )
}

type Jitter = { readonly scheduleId: string; readonly jitterMs: number }

/**
 * The first planned time strictly after now, or what rule 3 says of one that is over. Compiled with `nowMs`,
 * so that only a single time can have nothing left.
 */
export function firstTime(
  compiled: CompiledSchedule,
  jitter: Jitter,
  timing: Pick<SaidTiming, 'ifPast'>,
  spec: StoredSpec,
  nowMs: number,
): PlannedTime {
  const next = plannedTimeAfter(jitter, compiled, nowMs)
  if (next !== null) return next
  const over = plannedTimeAfter(jitter, compiled, Number.MIN_SAFE_INTEGER)
  const overMs = over?.scheduledForMs ?? nowMs
  if (over !== null && nowMs - overMs <= pastGraceMs) return over
  if (timing.ifPast === 'runNow') return { scheduledForMs: nowMs, dueAtMs: nowMs }
  const message =
    `is over: ${new Date(overMs).toISOString()} was before now (${new Date(nowMs).toISOString()}); ` +
    'give a later time, or "ifPast": "runNow" to run it at once'
  throw invalidSchedule([{ pointer: 'cron' in spec ? '/cron' : '/at', message }])
}

/** A planned time under another jitter; one that stands in no plan (rule 3) has none. */
function sameTime(compiled: CompiledSchedule, jitter: Jitter, scheduledForMs: number): PlannedTime {
  const found = plannedTimeAfter(jitter, compiled, scheduledForMs - 1)
  return found?.scheduledForMs === scheduledForMs ? found : { scheduledForMs, dueAtMs: scheduledForMs }
}

function wrongState(current: ScheduleRecord, done: string, rule: string): BelfryError {
  return new BelfryError('invalid_state', `The schedule is ${current.state} and cannot be ${done}. ${rule}`)
}
