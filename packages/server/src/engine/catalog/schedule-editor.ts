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
import { parseRate } from '../../domain/schedule/rate.ts'
import type { ScheduleFault } from '../../domain/schedule/schedule-fault.ts'
import type { CompiledSchedule, ScheduleBounds } from '../../domain/schedule/schedule-spec.ts'
import { compileScheduleIn } from '../../domain/schedule/schedule-spec.ts'
import type { StoredSpec } from '../../domain/stored-spec.ts'
import { toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleChange, ScheduleRecord, ScheduleSettings } from '../../ports/catalog.ts'
import type { ZoneSource } from '../../ports/zones.ts'

/** How long a time may be over and still be taken as meant. */
const pastGraceMs = 60_000

interface Timing {
  readonly at?: string | undefined
  readonly every?: string | undefined
  readonly cron?: string | undefined
  readonly dialect: 'unix'
  readonly zone: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  readonly ifPast: 'reject' | 'runNow'
}

interface Moment {
  readonly zones: ZoneSource
  /** Database time. */
  readonly nowMs: number
}

/** Settings and first planned time of a new schedule. Throws `invalid_schedule`. */
export function planNewSchedule(
  id: string,
  wanted: ScheduleCreate,
  moment: Moment,
): { settings: ScheduleSettings; first: PlannedTime } {
  const timing: Timing = {
    ...wanted,
    startAtMs: wanted.startAt === undefined ? null : Date.parse(wanted.startAt),
    endAtMs: wanted.endAt === undefined ? null : Date.parse(wanted.endAt),
  }
  const spec = specOf(timing, moment.nowMs)
  const compiled = compile(spec, timing, moment.zones)
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
  const spec = sameTiming(current, wanted) ? current.spec : specOf(timing, moment.nowMs, current.spec)
  const settings: ScheduleSettings = {
    description: wanted.description ?? current.description,
    spec,
    zone: timing.zone,
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
    const compiled = compile(spec, timing, moment.zones)
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
  const compiled = compile(current.spec, current, moment.zones)
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

/** How the timing was read, in words, where that may surprise. */
export function notesOf(
  schedule: Pick<ScheduleSettings, 'spec' | 'zone'>,
  zones: ZoneSource,
): readonly string[] {
  if (!('at' in schedule.spec)) return []
  const compiled = compileScheduleIn(toScheduleSpec(schedule.spec, schedule.zone), zones)
  return compiled.ok ? compiled.value.notes : []
}

function moveTiming(
  current: ScheduleRecord,
  settings: ScheduleSettings,
  timing: Timing,
  { zones, nowMs }: Moment,
): ScheduleChange {
  const compiled = compile(settings.spec, timing, zones)
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

function mergedTiming(current: ScheduleRecord, wanted: ScheduleUpdate): Timing {
  const said = { at: wanted.at, every: wanted.every, cron: wanted.cron }
  const replaced = Object.values(said).some((part) => part !== undefined)
  const bound = (change: string | null | undefined, before: number | null): number | null => {
    if (change === undefined) return before
    return change === null ? null : Date.parse(change)
  }
  return {
    ...(replaced ? said : saidBefore(current.spec)),
    dialect: 'unix',
    zone: wanted.zone ?? current.zone,
    startAtMs: bound(wanted.startAt, current.startAtMs),
    endAtMs: bound(wanted.endAt, current.endAtMs),
    ifPast: wanted.ifPast ?? 'reject',
  }
}

function saidBefore(spec: StoredSpec): { at?: string; every?: string; cron?: string } {
  if ('at' in spec) return { at: spec.at }
  return 'every' in spec ? { every: spec.every } : { cron: spec.cron }
}

function mergedCatchUp({ catchUp }: ScheduleRecord, wanted: ScheduleUpdate): ScheduleSettings['catchUp'] {
  return {
    policy: wanted.catchUp?.policy ?? catchUp.policy,
    windowMs: wanted.catchUp?.windowMs ?? catchUp.windowMs,
    maxRuns: wanted.catchUp?.maxRuns ?? catchUp.maxRuns,
  }
}

/**
 * Whether the edit says nothing new about when, as far as the stored spec goes; a rate then keeps its anchor.
 */
function sameTiming(current: ScheduleRecord, wanted: ScheduleUpdate): boolean {
  const before = saidBefore(current.spec)
  const same = (['at', 'every', 'cron'] as const).every(
    (key) => wanted[key] === undefined || wanted[key] === before[key],
  )
  const start =
    wanted.startAt === undefined
      ? current.startAtMs
      : wanted.startAt === null
        ? null
        : Date.parse(wanted.startAt)
  return same && start === current.startAtMs
}

function timingMoved(current: ScheduleRecord, settings: ScheduleSettings): boolean {
  return (
    JSON.stringify(normal(current.spec)) !== JSON.stringify(normal(settings.spec)) ||
    current.zone !== settings.zone ||
    current.startAtMs !== settings.startAtMs ||
    current.endAtMs !== settings.endAtMs
  )
}

/** In one order of keys, whatever order the database keeps them in. */
function normal(spec: StoredSpec): readonly unknown[] {
  if ('at' in spec) return ['at', spec.at]
  return 'every' in spec ? ['every', spec.everyMs, spec.anchorMs] : ['cron', spec.cron, spec.dialect]
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

function specOf(timing: Timing, nowMs: number, before?: StoredSpec): StoredSpec {
  if (timing.at !== undefined) return { at: timing.at }
  if (timing.cron !== undefined) return { cron: timing.cron, dialect: timing.dialect }
  const every = timing.every ?? ''
  const parsed = parseRate(every)
  if (!parsed.ok) throw invalid([parsed.error])
  const unmoved = before !== undefined && 'every' in before && before.everyMs === parsed.value
  const anchorMs = timing.startAtMs ?? (unmoved ? before.anchorMs : nowMs)
  return { every, everyMs: parsed.value, anchorMs }
}

function compile(
  spec: StoredSpec,
  timing: Pick<Timing, 'zone' | 'startAtMs' | 'endAtMs'>,
  zones: ZoneSource,
): CompiledSchedule {
  const bounds: ScheduleBounds = {
    ...(timing.startAtMs === null ? {} : { startAtMs: timing.startAtMs }),
    ...(timing.endAtMs === null ? {} : { endAtMs: timing.endAtMs }),
  }
  const compiled = compileScheduleIn(toScheduleSpec(spec, timing.zone), zones, bounds)
  if (!compiled.ok) throw invalid(compiled.error)
  return compiled.value
}

type Jitter = { readonly scheduleId: string; readonly jitterMs: number }

/** The first planned time strictly after now, or what rule 3 says of one that is over. */
function firstTime(
  compiled: CompiledSchedule,
  jitter: Jitter,
  timing: Timing,
  spec: StoredSpec,
  nowMs: number,
): PlannedTime {
  const next = plannedTimeAfter(jitter, compiled, nowMs)
  if (next !== null) return next
  if (!('at' in spec)) {
    throw invalid([
      { pointer: '/endAt', message: 'never fires: the end is over; give a later one or leave it out' },
    ])
  }
  const over = plannedTimeAfter(jitter, compiled, Number.MIN_SAFE_INTEGER)
  const overMs = over?.scheduledForMs ?? nowMs
  if (over !== null && nowMs - overMs <= pastGraceMs) return over
  if (timing.ifPast === 'runNow') return { scheduledForMs: nowMs, dueAtMs: nowMs }
  const message =
    `is over: ${new Date(overMs).toISOString()} was before now (${new Date(nowMs).toISOString()}); ` +
    'give a later time, or "ifPast": "runNow" to run it at once'
  throw invalid([{ pointer: '/at', message }])
}

/** A planned time under another jitter; one that stands in no plan (rule 3) has none. */
function sameTime(compiled: CompiledSchedule, jitter: Jitter, scheduledForMs: number): PlannedTime {
  const found = plannedTimeAfter(jitter, compiled, scheduledForMs - 1)
  return found?.scheduledForMs === scheduledForMs ? found : { scheduledForMs, dueAtMs: scheduledForMs }
}

function invalid(faults: readonly ScheduleFault[]): BelfryError {
  // The evaluator speaks of a rate; people wrote `every`.
  const errors = faults.map(({ pointer, message }) => ({
    pointer: pointer.replace(/^\/rate/, '/every'),
    message,
  }))
  const words = errors
    .map(({ pointer, message }) => `${pointer.slice(1) || 'the schedule'}: ${message}`)
    .join('; ')
  return new BelfryError('invalid_schedule', `The schedule is not valid. ${words}.`, { errors })
}

function wrongState(current: ScheduleRecord, done: string, rule: string): BelfryError {
  return new BelfryError('invalid_state', `The schedule is ${current.state} and cannot be ${done}. ${rule}`)
}
