/**
 * Decides what a request to make or change a schedule means: is the timing valid, when does it fire first or
 * next, does the timer move. Pure: it gets the database's time and the zone data, and answers what to write.
 * Pause, resume, skip and sleep stand in schedule-actions.ts.
 *
 *   1. The watermark of an edit is now: the next planned time lies strictly after it. Nothing fires for the
 *      past; what had come due by then was fired before (settle.ts).
 *   2. Only a change of timing moves the timer. A change of the delay (jitter, flexible window) moves its
 *      start and not the planned time; any other change leaves both alone.
 *   3. A time that is over is refused, unless by at most a minute or with `ifPast: runNow`, which plans it
 *      for now, without delay.
 *   4. What can never fire is refused with the reason.
 *   5. Another run limit counts from 0. A schedule that its limit completed goes on if times are left, as one
 *      does that gets a new timing.
 */
import type { BelfryError, ScheduleCreate, ScheduleUpdate } from '@belfry/contract'
import { twoDelaysMessage } from '@belfry/contract'
import type { PlannedTime } from '../../domain/fire-policy.ts'
import { plannedTimeAfter } from '../../domain/firing.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { StoredSpec, UnreadableSpec } from '../../domain/stored-spec.ts'
import type { ScheduleChange, ScheduleRecord, ScheduleSettings } from '../../ports/schedule-store.ts'
import { nothingOnRecord, recordUntil } from './paused-span.ts'
import { pastGraceMs } from './run-maker.ts'
import type { Moment, SaidTiming } from './said-timing.ts'
import {
  compileSaid,
  invalidSchedule,
  mergedTiming,
  newTiming,
  readableSpec,
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
  const timing = newTiming(wanted, moment)
  const spec = specOf(timing, moment)
  const compiled = compileSaid(spec, timing, { ...moment, scheduleId: id })
  const settings: ScheduleSettings = {
    description: wanted.description,
    spec,
    zone: compiled.zoneName,
    zoneDataVersion: moment.zones.dataVersion,
    startAtMs: timing.startAtMs,
    endAtMs: timing.endAtMs,
    calendars: timing.calendars,
    onExcluded: timing.onExcluded,
    jitterMs: wanted.jitterMs,
    flexibleWindowMs: wanted.flexibleWindowMs,
    catchUp: wanted.catchUp,
    overlap: wanted.overlap,
    runLimit: wanted.runLimit,
    pauseAfterFailures: wanted.pauseAfterFailures,
    afterCompletion: wanted.afterCompletion,
    input: wanted.input,
  }
  return { settings, first: firstTime(compiled, delayOf(id, settings), timing, spec, moment.nowMs) }
}

/** What an edit writes; undefined where it changes nothing. Throws `invalid_schedule`. */
export function planEdit(
  current: ScheduleRecord,
  wanted: ScheduleUpdate,
  moment: Moment,
): ScheduleChange | undefined {
  const timing = saysWhen(wanted) ? mergedTiming(current, wanted, moment) : undefined
  const settings: Settings = {
    description: wanted.description ?? current.description,
    spec: timing === undefined ? current.spec : specOf(timing, moment, current.spec),
    zone: timing?.zone ?? current.zone,
    zoneDataVersion: current.zoneDataVersion,
    startAtMs: timing === undefined ? current.startAtMs : timing.startAtMs,
    endAtMs: timing === undefined ? current.endAtMs : timing.endAtMs,
    calendars: timing?.calendars ?? current.calendars,
    onExcluded: timing?.onExcluded ?? current.onExcluded,
    jitterMs: wanted.jitterMs ?? current.jitterMs,
    flexibleWindowMs: wanted.flexibleWindowMs ?? current.flexibleWindowMs,
    catchUp: mergedCatchUp(current, wanted),
    overlap: wanted.overlap ?? current.overlap,
    runLimit: orBefore(wanted.runLimit, current.runLimit),
    pauseAfterFailures: orBefore(wanted.pauseAfterFailures, current.pauseAfterFailures),
    afterCompletion: wanted.afterCompletion ?? current.afterCompletion,
    input: wanted.input === undefined ? current.input : wanted.input,
  }
  if (settings.jitterMs > 0 && settings.flexibleWindowMs > 0) {
    throw invalidSchedule([{ pointer: '/flexibleWindowMs', message: twoDelaysMessage }])
  }
  if (timing !== undefined && timingMoved(current, settings)) {
    return moveTiming(current, settings, timing, moment)
  }
  if (sameSettings(current, settings)) return undefined
  const change = unmoved(current, settings)
  if (spentItsLimit(current) && settings.runLimit !== current.runLimit) return goOn(change, current, moment)
  const delayed =
    settings.jitterMs !== current.jitterMs || settings.flexibleWindowMs !== current.flexibleWindowMs
  if (!delayed || current.next === null) return change
  const compiled = compileCurrent(current, moment)
  const next = sameTime(compiled, delayOf(current.id, settings), current.next.scheduledForMs)
  return { ...change, timer: { kind: 'set', next } }
}

type Settings = ScheduleSettings<StoredSpec | UnreadableSpec>

/** The timing as it is stored. Throws `invalid_schedule` for one that cannot be read. */
export function compileCurrent(current: ScheduleRecord, { zones }: Pick<Moment, 'zones'>): CompiledSchedule {
  return compileSaid(readableSpec(current), current, { zones, scheduleId: current.id })
}

function moveTiming(
  current: ScheduleRecord,
  settings: Settings,
  timing: SaidTiming,
  { zones, nowMs, onRecord = nothingOnRecord }: Moment,
): ScheduleChange {
  const spec = readableSpec(settings)
  const compiled = compileSaid(spec, timing, { zones, scheduleId: current.id, nowMs })
  const next = firstTime(compiled, delayOf(current.id, settings), timing, spec, nowMs)
  const written = { ...settings, zone: compiled.zoneName, zoneDataVersion: zones.dataVersion }
  const change = unmoved(current, written)
  if (current.state === 'paused') {
    // until now the times of the plan as it was were passed over
    return { ...change, timer: { kind: 'drop' }, ...recordUntil(current, zones, nowMs, onRecord) }
  }
  const runCount = current.state === 'completed' ? 0 : change.runCount
  return { ...change, state: 'active', runCount, timer: { kind: 'set', next } }
}

/** A schedule that its run limit completed, if times are left. */
function goOn(change: ScheduleChange, current: ScheduleRecord, moment: Moment): ScheduleChange {
  const compiled = compileCurrent(current, moment)
  const next = plannedTimeAfter(delayOf(current.id, change.settings), compiled, moment.nowMs)
  return next === null ? change : { ...change, state: 'active', timer: { kind: 'set', next } }
}

function spentItsLimit({ state, runLimit, runCount }: ScheduleRecord): boolean {
  return state === 'completed' && runLimit !== null && runCount >= runLimit
}

/** Writes the settings and leaves everything else as it is. */
export function unmoved(current: ScheduleRecord, settings: Settings): ScheduleChange {
  return {
    settings,
    state: current.state,
    pausedReason: current.pausedReason,
    pausedFromMs: current.pausedFromMs,
    sleep: current.sleep,
    runCount: settings.runLimit === current.runLimit ? current.runCount : 0,
    forgivesFailures: settings.pauseAfterFailures !== current.pauseAfterFailures,
    replacesCalendars: !sameCalendars(current, settings),
    timer: { kind: 'keep' },
    records: [],
  }
}

function mergedCatchUp({ catchUp }: ScheduleRecord, wanted: ScheduleUpdate): ScheduleSettings['catchUp'] {
  return {
    policy: wanted.catchUp?.policy ?? catchUp.policy,
    windowMs: wanted.catchUp?.windowMs ?? catchUp.windowMs,
    maxRuns: wanted.catchUp?.maxRuns ?? catchUp.maxRuns,
  }
}

const orBefore = <T>(change: T | null | undefined, before: T | null): T | null =>
  change === undefined ? before : change

function timingMoved(current: ScheduleRecord, settings: Settings): boolean {
  return (
    !sameSpec(current.spec, settings.spec) ||
    current.zone !== settings.zone ||
    current.startAtMs !== settings.startAtMs ||
    current.endAtMs !== settings.endAtMs ||
    current.onExcluded !== settings.onExcluded ||
    !sameCalendars(current, settings)
  )
}

/** Whether they are the same, asked in the same order. */
function sameCalendars(current: ScheduleRecord, { calendars }: Pick<Settings, 'calendars'>): boolean {
  const keys = (uses: Settings['calendars']): string => uses.map(({ id, use }) => `${use} ${id}`).join()
  return keys(current.calendars) === keys(calendars)
}

function sameSettings(current: ScheduleRecord, settings: Settings): boolean {
  const { catchUp } = settings
  return (
    current.description === settings.description &&
    current.jitterMs === settings.jitterMs &&
    current.flexibleWindowMs === settings.flexibleWindowMs &&
    current.overlap === settings.overlap &&
    current.runLimit === settings.runLimit &&
    current.pauseAfterFailures === settings.pauseAfterFailures &&
    current.afterCompletion === settings.afterCompletion &&
    current.catchUp.policy === catchUp.policy &&
    current.catchUp.windowMs === catchUp.windowMs &&
    current.catchUp.maxRuns === catchUp.maxRuns &&
    current.input === settings.input
  )
}

type Delay = { readonly scheduleId: string; readonly jitterMs: number; readonly flexibleWindowMs: number }

export function delayOf(
  scheduleId: string,
  { jitterMs, flexibleWindowMs }: Pick<ScheduleSettings, 'jitterMs' | 'flexibleWindowMs'>,
): Delay {
  return { scheduleId, jitterMs, flexibleWindowMs }
}

/**
 * The first planned time strictly after now, or what rule 3 says of one that is over. Compiled with `nowMs`,
 * so that only a single time can have nothing left.
 */
export function firstTime(
  compiled: CompiledSchedule,
  delay: Delay,
  timing: Pick<SaidTiming, 'ifPast'>,
  spec: StoredSpec,
  nowMs: number,
): PlannedTime {
  const next = plannedTimeAfter(delay, compiled, nowMs)
  if (next !== null) return next
  const over = plannedTimeAfter(delay, compiled, Number.MIN_SAFE_INTEGER)
  const overMs = over?.scheduledForMs ?? nowMs
  if (over !== null && nowMs - overMs <= pastGraceMs) return over
  if (timing.ifPast === 'runNow') return { scheduledForMs: nowMs, dueAtMs: nowMs }
  throw isOver(spec, overMs, nowMs, '')
}

/**
 * A single time that is over and that a schedule of the same name, deleted since, has run already: made anew
 * within the minute of grace, it would run twice.
 */
export function ranBefore(spec: StoredSpec, overMs: number, nowMs: number): BelfryError {
  return isOver(spec, overMs, nowMs, ' and a deleted schedule of this name ran then')
}

function isOver(spec: StoredSpec, overMs: number, nowMs: number, more: string): BelfryError {
  const message =
    `is over: ${new Date(overMs).toISOString()} was before now (${new Date(nowMs).toISOString()})${more}; ` +
    'give a later time, or "ifPast": "runNow" to run it at once'
  return invalidSchedule([{ pointer: 'cron' in spec ? '/cron' : '/at', message }])
}

/** A planned time under another delay; one that stands in no plan (rule 3) has none. */
function sameTime(compiled: CompiledSchedule, delay: Delay, scheduledForMs: number): PlannedTime {
  const found = plannedTimeAfter(delay, compiled, scheduledForMs - 1)
  return found?.scheduledForMs === scheduledForMs ? found : { scheduledForMs, dueAtMs: scheduledForMs }
}
