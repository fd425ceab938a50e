// When a schedule fires, in the form that is stored with it (`belfry.schedule.spec`): as it was said, and
// what the evaluator needs. The zone and the bounds have columns of their own. Everybody who reads the column
// passes here.

import type { ScheduleSpec } from './schedule/schedule-spec.ts'

export type StoredSpec =
  | { readonly at: string }
  | { readonly every: string; readonly everyMs: number; readonly anchorMs: number }
  | { readonly cron: string; readonly dialect: 'unix' }

/** The evaluator's form of a stored spec. */
export function toScheduleSpec(stored: StoredSpec, zone: string): ScheduleSpec {
  if ('at' in stored) return { kind: 'at', at: stored.at, zone }
  if ('every' in stored) return { kind: 'rate', everyMs: stored.everyMs, anchorMs: stored.anchorMs, zone }
  return { kind: 'cron', dialect: stored.dialect, expression: stored.cron, zone }
}
