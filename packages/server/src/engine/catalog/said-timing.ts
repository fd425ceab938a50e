/**
 * The timing part of a request, merged with what is stored, turned into the stored form and compiled. Faults
 * point at the fields of the API. Pure.
 *
 *   1. What counts from an anchor counts from the start bound, else from the time of creation. An edit that
 *      leaves period or interval as it is keeps the anchor.
 *   2. The dialect is stored and never guessed: a new expression without one stays in the one before.
 *   3. H draws from the id of the schedule, so its times stay over any edit.
 */
import type { ScheduleCreate, SchedulePreview } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { CalendarUse } from '../../domain/calendar/calendar-lookup.ts'
import { tooDear, withCalendars } from '../../domain/calendar/calendar-schedule.ts'
import { keptTimes } from '../../domain/calendar/kept-times.ts'
import type { OnExcluded } from '../../domain/calendar/occurrence-exclusion.ts'
import type { CronDialect, DayMatch } from '../../domain/schedule/cron-dialect.ts'
import { parseExpression } from '../../domain/schedule/cron-parser.ts'
import { parseRate } from '../../domain/schedule/rate.ts'
import { fault, type ScheduleFault } from '../../domain/schedule/schedule-fault.ts'
import type { CompiledSchedule, DstChoice } from '../../domain/schedule/schedule-spec.ts'
import { compileScheduleIn, DEFAULT_ZONE, zoneInExpression } from '../../domain/schedule/schedule-spec.ts'
import { rulesOf } from '../../domain/stored-schedule.ts'
import type { StoredSpec, UnreadableSpec } from '../../domain/stored-spec.ts'
import { isReadable, toScheduleSpec } from '../../domain/stored-spec.ts'
import type { OnRecord, ScheduleRecord } from '../../ports/schedule-store.ts'
import type { ZoneSource } from '../../ports/zones.ts'

export interface SaidTiming {
  readonly at?: string | undefined
  readonly every?: string | undefined
  readonly cron?: string | undefined
  readonly dialect: CronDialect
  readonly dayMatch: DayMatch | undefined
  readonly dst: DstChoice | undefined
  /** Undefined: UTC, or the one that the expression names. */
  readonly zone: string | undefined
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  readonly calendars: readonly CalendarUse[]
  readonly onExcluded: OnExcluded
  readonly ifPast: 'reject' | 'runNow'
}

/** What an update, or a preview of one, says of when. */
export type TimingChange = Omit<SchedulePreview, 'count' | 'from' | 'scheduleId'>

export interface Moment {
  readonly zones: ZoneSource
  /** Database time. */
  readonly nowMs: number
  /** Those that the request names, in the lists that name them; left out where it names none. */
  readonly calendars?: NamedCalendars
  /** While the schedule is paused: what is on record since; left out where that is nothing. */
  readonly onRecord?: OnRecord
}

export interface NamedCalendars {
  readonly skipOn: readonly CalendarUse[]
  readonly onlyOn: readonly CalendarUse[]
}

type CreateTiming = Pick<
  ScheduleCreate,
  | 'at'
  | 'every'
  | 'cron'
  | 'dialect'
  | 'dayMatch'
  | 'dst'
  | 'zone'
  | 'startAt'
  | 'endAt'
  | 'onExcluded'
  | 'ifPast'
>

export function newTiming(wanted: CreateTiming, { calendars }: Pick<Moment, 'calendars'>): SaidTiming {
  const { at, every, cron, dialect, dayMatch, dst, zone, startAt, endAt, onExcluded, ifPast } = wanted
  return {
    at,
    every,
    cron,
    dialect,
    dayMatch,
    zone,
    ifPast,
    dst: given(dst),
    startAtMs: startAt === undefined ? null : Date.parse(startAt),
    endAtMs: endAt === undefined ? null : Date.parse(endAt),
    calendars: [...(calendars?.skipOn ?? []), ...(calendars?.onlyOn ?? [])],
    onExcluded,
  }
}

/**
 * Throws `invalid_schedule` for what only an expression can have, and for a change to a part of a timing that
 * cannot be read.
 */
export function mergedTiming(
  current: ScheduleRecord,
  wanted: TimingChange,
  { calendars }: Pick<Moment, 'calendars'>,
): SaidTiming {
  const said = { at: wanted.at, every: wanted.every, cron: wanted.cron }
  const replaced = Object.values(said).some((part) => part !== undefined)
  const before = replaced && !isReadable(current.spec) ? noSpec : readableSpec(current)
  const parts = replaced ? said : saidBefore(before)
  const isCron = parts.cron !== undefined
  if (!isCron) refuseOfCron(wanted)
  const wasCron = 'cron' in before
  const dialect = wanted.dialect ?? (wasCron ? before.dialect : 'unix')
  const dayMatch = changed(wanted.dayMatch, wasCron ? before.dayMatch : undefined)
  const dst =
    wanted.dst === null
      ? undefined
      : given({
          gap: changed(wanted.dst?.gap, before.dst?.gap),
          overlap: changed(wanted.dst?.overlap, before.dst?.overlap),
        })
  return {
    ...parts,
    dialect,
    dayMatch: isCron ? (dayMatch ?? undefined) : undefined,
    dst,
    zone: wanted.zone ?? ownZone(wanted.cron, dialect) ?? current.zone,
    startAtMs: bound(wanted.startAt, current.startAtMs),
    endAtMs: bound(wanted.endAt, current.endAtMs),
    calendars: [
      ...usesAfter('skip', wanted.skipOn, calendars?.skipOn, current),
      ...usesAfter('only', wanted.onlyOn, calendars?.onlyOn, current),
    ],
    onExcluded: wanted.onExcluded ?? current.onExcluded,
    ifPast: wanted.ifPast ?? 'reject',
  }
}

/** One of the two lists of calendars after an edit. */
function usesAfter(
  use: CalendarUse['use'],
  wanted: readonly string[] | null | undefined,
  named: readonly CalendarUse[] | undefined,
  current: ScheduleRecord,
): readonly CalendarUse[] {
  if (wanted === undefined) return current.calendars.filter((calendar) => calendar.use === use)
  return named ?? []
}

/** What is merged with a timing that nobody can read: nothing. */
const noSpec: StoredSpec = { at: '' }

/** Throws `invalid_schedule` for a timing that this version cannot read. */
export function readableSpec({ spec }: { readonly spec: StoredSpec | UnreadableSpec }): StoredSpec {
  if (isReadable(spec)) return spec
  const stored = JSON.stringify(spec.unreadable).slice(0, 200)
  const message =
    `the stored timing ${stored} is none that this version of Belfry knows; ` +
    'give the schedule a new one: "at", "every" or "cron"'
  throw invalidSchedule([{ pointer: '', message }])
}

/** Throws `invalid_schedule` where there is no expression that it could be about. */
export function refuseOfCron(wanted: TimingChange): void {
  for (const key of ['dialect', 'dayMatch'] as const) {
    if (wanted[key] === undefined || wanted[key] === null) continue
    const message = 'says how "cron" is read, and the schedule has none; give "cron" too, or leave it out'
    throw invalidSchedule([{ pointer: `/${key}`, message }])
  }
}

/** A new OnCalendar expression that names a zone moves the schedule there. */
function ownZone(cron: string | undefined, dialect: CronDialect): string | undefined {
  return cron === undefined ? undefined : zoneInExpression({ kind: 'cron', dialect, expression: cron })
}

/** Left out: as before. Null: taken away. */
const changed = <T>(change: T | null | undefined, before: T | undefined): T | undefined =>
  change === undefined ? before : (change ?? undefined)

const bound = (change: string | null | undefined, before: number | null): number | null => {
  if (change === undefined) return before
  return change === null ? null : Date.parse(change)
}

/** In one order, and absent when it chooses nothing. */
function given(
  dst:
    | { gap?: DstChoice['gap'] | null | undefined; overlap?: DstChoice['overlap'] | null | undefined }
    | undefined,
): DstChoice | undefined {
  const gap = dst?.gap ?? undefined
  const overlap = dst?.overlap ?? undefined
  if (gap === undefined && overlap === undefined) return undefined
  return { ...(gap === undefined ? {} : { gap }), ...(overlap === undefined ? {} : { overlap }) }
}

function saidBefore(spec: StoredSpec): { at?: string; every?: string; cron?: string } {
  if ('at' in spec) return { at: spec.at }
  return 'every' in spec ? { every: spec.every } : { cron: spec.cron }
}

/** Whether a change says anything of when. */
export const saysWhen = (wanted: TimingChange): boolean =>
  Object.entries(wanted).some(([key, part]) => part !== undefined && timingKeys.has(key))

const timingKeys: ReadonlySet<string> = new Set<keyof TimingChange>([
  'at',
  'every',
  'cron',
  'dialect',
  'dayMatch',
  'zone',
  'dst',
  'startAt',
  'endAt',
  'skipOn',
  'onlyOn',
  'onExcluded',
])

/** The form to store. `before` is what is stored, for its anchor (rule 1). Throws `invalid_schedule`. */
export function specOf(
  timing: SaidTiming,
  { zones, nowMs }: Moment,
  stored?: StoredSpec | UnreadableSpec,
): StoredSpec {
  const before = stored !== undefined && isReadable(stored) ? stored : undefined
  const { at, cron, dialect, dayMatch, startAtMs } = timing
  const common = timing.dst === undefined ? {} : { dst: timing.dst }
  if (at !== undefined) return { at, ...common }
  if (cron !== undefined) {
    const unmoved = before !== undefined && 'cron' in before && before.cron === cron ? before : undefined
    const parsed = parseExpression(cron, dialect)
    const counted = parsed.ok && parsed.value.kind === 'rate'
    return {
      cron,
      dialect,
      ...(dayMatch === undefined ? {} : { dayMatch }),
      ...(counted ? { anchorMs: startAtMs ?? unmoved?.anchorMs ?? nowMs } : {}),
      ...common,
    }
  }
  const every = timing.every ?? ''
  if (/^\s*every\b/i.test(every)) {
    const unmoved = before !== undefined && 'anchor' in before && before.every === every ? before : undefined
    const date = (ms: number): string => dateIn(zones, timing.zone ?? DEFAULT_ZONE, ms)
    return {
      every,
      anchor: startAtMs === null ? (unmoved?.anchor ?? date(nowMs)) : date(startAtMs),
      ...common,
    }
  }
  const parsed = parseRate(every)
  if (!parsed.ok) {
    const orWords = '; or say it by the calendar, as in "every 2 weeks on fri at 09:00"'
    throw invalidSchedule([{ ...parsed.error, message: `${parsed.error.message}${orWords}` }])
  }
  const unmoved =
    before !== undefined && 'everyMs' in before && before.everyMs === parsed.value ? before : undefined
  return { every, everyMs: parsed.value, anchorMs: startAtMs ?? unmoved?.anchorMs ?? nowMs, ...common }
}

/** An unknown zone is refused when the spec is compiled. */
function dateIn(zones: ZoneSource, zoneName: string, ms: number): string {
  return new Date(ms + (zones.get(zoneName)?.offsetAt(ms) ?? 0)).toISOString().slice(0, 10)
}

/**
 * Compiles; with `nowMs` in the options a schedule that has nothing left after it is refused, but for one
 * single time. Throws `invalid_schedule`.
 */
export function compileSaid(
  spec: StoredSpec,
  timing: {
    readonly zone: string | undefined
    readonly startAtMs: number | null
    readonly endAtMs: number | null
    readonly calendars: readonly CalendarUse[]
    readonly onExcluded: OnExcluded
  },
  options: { readonly zones: ZoneSource; readonly scheduleId: string | undefined; readonly nowMs?: number },
): CompiledSchedule {
  const { zones, scheduleId, nowMs } = options
  const compiled = compileScheduleIn(toScheduleSpec(spec, timing.zone, scheduleId), zones, {
    ...(timing.startAtMs === null ? {} : { startAtMs: timing.startAtMs }),
    ...(timing.endAtMs === null ? {} : { endAtMs: timing.endAtMs }),
    ...(nowMs === undefined ? {} : { nowMs }),
  })
  if (compiled.ok) return underCalendars(compiled.value, timing, zones, nowMs)
  // The evaluator speaks of a rate and of a time; people may have written either as an expression.
  const fields: Record<string, string> = 'cron' in spec ? { '/rate': '/cron', '/at': '/cron' } : {}
  throw invalidSchedule(
    compiled.error.map(({ pointer, message }) => ({ pointer: fields[pointer] ?? pointer, message })),
  )
}

/** With `nowMs` a schedule is refused of which the calendars leave nothing. */
function underCalendars(
  plain: CompiledSchedule,
  { calendars, onExcluded }: Pick<SaidTiming, 'calendars' | 'onExcluded'>,
  zones: ZoneSource,
  nowMs: number | undefined,
): CompiledSchedule {
  const zone = calendars.length === 0 ? undefined : zones.get(plain.zoneName)
  if (zone === undefined) return plain
  const rules = rulesOf(calendars, onExcluded, zone, zones)
  if (!rules.ok) throw invalidSchedule([fault('/skipOn', rules.error)])
  const dear = nowMs === undefined ? undefined : tooDear(rules.value)
  if (dear !== undefined) throw invalidSchedule([dear])
  const compiled = withCalendars(plain, zone, rules.value)
  if (!compiled.ok) throw invalidSchedule(compiled.error)
  const trouble = nowMs === undefined ? undefined : nothingKept(compiled.value, nowMs)
  if (trouble !== undefined) throw invalidSchedule([trouble])
  return compiled.value
}

function nothingKept(schedule: CompiledSchedule, nowMs: number): ScheduleFault | undefined {
  const { times, excluded, excludedCount, complete, lookedToMs } = keptTimes(schedule, 'next', nowMs, 1)
  const [first] = excluded
  if (times.length > 0 || first === undefined) return undefined
  const pointer = `/${schedule.exclusionOf?.(first.timeMs)?.by ?? 'skipOn'}`
  const when = new Date(first.timeMs).toISOString()
  if (excludedCount === 1 && complete) return fault(pointer, `never fires: at ${when} ${first.reason}`)
  const all = complete ? 'every planned time' : `every planned time up to ${isoDay(lookedToMs)}`
  return fault(pointer, `never fires: the calendars leave out ${all}; at ${when} ${first.reason}`)
}

const isoDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/** Whether two stored forms mean the same, in whatever order the database keeps their keys. */
export function sameSpec(one: StoredSpec | UnreadableSpec, other: StoredSpec | UnreadableSpec): boolean {
  if (!isReadable(one) || !isReadable(other)) return one === other
  return JSON.stringify(normal(one)) === JSON.stringify(normal(other))
}

function normal(spec: StoredSpec): readonly unknown[] {
  const dst = [spec.dst?.gap, spec.dst?.overlap]
  if ('at' in spec) return ['at', spec.at, dst]
  if ('everyMs' in spec) return ['rate', spec.everyMs, spec.anchorMs, dst]
  if ('every' in spec) return ['calendar', spec.every, spec.anchor, dst]
  return ['cron', spec.cron, spec.dialect, spec.dayMatch, spec.anchorMs, dst]
}

export function invalidSchedule(faults: readonly ScheduleFault[]): BelfryError {
  const errors = faults.map(({ pointer, message }) => ({
    pointer: pointer.replace(/^\/rate/, '/every'),
    message,
  }))
  const words = errors
    .map(({ pointer, message }) => `${pointer.slice(1) || 'the schedule'}: ${message}`)
    .join('; ')
  return new BelfryError('invalid_schedule', `The schedule is not valid. ${words}.`, { errors })
}
