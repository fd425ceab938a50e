/**
 * When a schedule fires, in the form that is stored with it (`belfry.schedule.spec`): as it was said, and
 * what the evaluator needs. The zone and the bounds have columns of their own. Everybody who reads the column
 * passes here.
 *
 * Invariant: a form is only ever widened. Rows of older versions lack the newer fields and mean the same.
 */
import { CRON_DIALECT_NAMES, type CronDialect, type DayMatch } from './schedule/cron-dialect.ts'
import type { DstChoice, ScheduleSpec } from './schedule/schedule-spec.ts'

export type StoredSpec = (
  | { readonly at: string }
  | { readonly every: string; readonly everyMs: number; readonly anchorMs: number }
  /** A calendar interval; `anchor` is a date of the zone. */
  | { readonly every: string; readonly anchor: string }
  | {
      readonly cron: string
      readonly dialect: CronDialect
      readonly dayMatch?: DayMatch
      /** Of an expression that is a rate, as `rate(5 minutes)` of EventBridge. */
      readonly anchorMs?: number
    }
) & { readonly dst?: DstChoice }

/** Something else in the column: damaged, or written by a newer version. Kept, so no edit destroys it. */
export type UnreadableSpec = { readonly unreadable: unknown }

export const isReadable = (spec: StoredSpec | UnreadableSpec): spec is StoredSpec => !('unreadable' in spec)

/** As it stands in the column. */
export const columnOf = (spec: StoredSpec | UnreadableSpec): unknown =>
  isReadable(spec) ? spec : spec.unreadable

/** What stands in the column, if it is a form that is known. */
export function readStoredSpec(value: unknown): StoredSpec | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { at, every, everyMs, anchorMs, anchor, cron, dialect, dayMatch, dst } = value as Record<
    string,
    unknown
  >
  const choice = readDst(dst)
  if (choice === undefined) return undefined
  if (typeof at === 'string') return { at, ...choice }
  if (typeof every === 'string') {
    if (typeof everyMs === 'number' && typeof anchorMs === 'number')
      return { every, everyMs, anchorMs, ...choice }
    return typeof anchor === 'string' ? { every, anchor, ...choice } : undefined
  }
  const known = CRON_DIALECT_NAMES.find((name) => name === dialect)
  if (typeof cron !== 'string' || known === undefined) return undefined
  if (dayMatch !== undefined && dayMatch !== 'and' && dayMatch !== 'or') return undefined
  return {
    cron,
    dialect: known,
    ...(dayMatch === undefined ? {} : { dayMatch }),
    ...(typeof anchorMs === 'number' ? { anchorMs } : {}),
    ...choice,
  }
}

function readDst(value: unknown): { readonly dst?: DstChoice } | undefined {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null) return undefined
  const { gap, overlap } = value as Record<string, unknown>
  if (gap !== undefined && gap !== 'next_valid' && gap !== 'skip') return undefined
  if (overlap !== undefined && overlap !== 'first' && overlap !== 'both') return undefined
  return { dst: { ...(gap === undefined ? {} : { gap }), ...(overlap === undefined ? {} : { overlap }) } }
}

/**
 * The evaluator's form of a stored spec. `zone` may be left out while a schedule is planned: an OnCalendar
 * expression can name its own. `scheduleId` is what H draws from; a schedule that is not made yet has none.
 */
export function toScheduleSpec(
  stored: StoredSpec,
  zoneName: string | undefined,
  scheduleId: string | undefined,
): ScheduleSpec {
  const common = {
    ...(zoneName === undefined ? {} : { zone: zoneName }),
    ...(stored.dst === undefined ? {} : { dst: stored.dst }),
  }
  if ('at' in stored) return { kind: 'at', at: stored.at, ...common }
  if ('everyMs' in stored)
    return { kind: 'rate', everyMs: stored.everyMs, anchorMs: stored.anchorMs, ...common }
  if ('every' in stored) return { kind: 'calendar', every: stored.every, anchor: stored.anchor, ...common }
  const { cron, dialect, dayMatch, anchorMs } = stored
  return {
    kind: 'cron',
    dialect,
    expression: cron,
    ...(dayMatch === undefined ? {} : { dayMatch }),
    ...(anchorMs === undefined ? {} : { anchorMs }),
    ...(scheduleId === undefined ? {} : { seed: scheduleId }),
    ...common,
  }
}
