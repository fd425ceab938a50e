/**
 * When a schedule fires, in the form that is stored with it (`belfry.schedule.spec`): as it was said, and
 * what the evaluator needs. The zone and the bounds have columns of their own. Everybody who reads the column
 * passes here.
 */
import type { ScheduleSpec } from './schedule/schedule-spec.ts'

export type StoredSpec =
  | { readonly at: string }
  | { readonly every: string; readonly everyMs: number; readonly anchorMs: number }
  | { readonly cron: string; readonly dialect: 'unix' }

/** What stands in the column, if it is a form that is known. */
export function readStoredSpec(value: unknown): StoredSpec | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { at, every, everyMs, anchorMs, cron, dialect } = value as Record<string, unknown>
  if (typeof at === 'string') return { at }
  if (typeof every === 'string' && typeof everyMs === 'number' && typeof anchorMs === 'number') {
    return { every, everyMs, anchorMs }
  }
  return typeof cron === 'string' && dialect === 'unix' ? { cron, dialect } : undefined
}

/** The evaluator's form of a stored spec. */
export function toScheduleSpec(stored: StoredSpec, zone: string): ScheduleSpec {
  if ('at' in stored) return { kind: 'at', at: stored.at, zone }
  if ('every' in stored) return { kind: 'rate', everyMs: stored.everyMs, anchorMs: stored.anchorMs, zone }
  return { kind: 'cron', dialect: stored.dialect, expression: stored.cron, zone }
}
