// The windows of a calendar: from each time of a cron expression, for so many minutes of real time. A look
// remembers the stretch that it found, so that looks that follow each other cost no search.

import type { ZoneTimeline } from '../zone/zone-rules.ts'
import type { CronPlan } from '../schedule/cron-plan.ts'
import { FIXED_TIME_POLICY, INTERVAL_POLICY, nextOfCron, previousOfCron } from '../schedule/cron-search.ts'

export type CoverWindow = { readonly plan: CronPlan; readonly durationMs: number; readonly label: string }

/** From `fromMs` up to `untilMs` it is covered, or it is not. */
type Stretch = { readonly fromMs: number; readonly untilMs: number; readonly covered: boolean }

export type WindowCover = {
  readonly label: string
  look(instantMs: number): Stretch
}

export function makeWindowCover(
  { plan, durationMs, label }: CoverWindow,
  timeline: ZoneTimeline,
): WindowCover {
  const policy = plan.fixedTime ? FIXED_TIME_POLICY : INTERVAL_POLICY
  let last: Stretch = { fromMs: 0, untilMs: 0, covered: false }
  return {
    label,
    look(instantMs) {
      if (last.fromMs <= instantMs && instantMs < last.untilMs) return last
      const startMs = previousOfCron(plan, timeline, policy, instantMs + 1)
      const covered = startMs !== null && instantMs < startMs + durationMs
      last = covered
        ? { fromMs: startMs, untilMs: startMs + durationMs, covered }
        : {
            fromMs: startMs === null ? instantMs : startMs + durationMs,
            untilMs: nextOfCron(plan, timeline, policy, instantMs) ?? Number.POSITIVE_INFINITY,
            covered,
          }
      return last
    },
  }
}
