// Plans and what was decided by them, as they grow old: a decision by calendars is good for no longer than
// the plan, since a calendar can change without its schedule.
import { expect, test } from 'vitest'
import type { CalendarUse } from '../../packages/server/src/domain/calendar/calendar-lookup.ts'
import { compileCalendar } from '../../packages/server/src/domain/calendar/calendar-definition.ts'
import { createFirePreparer, type ScheduleTimer } from '../../packages/server/src/engine/fire-preparer.ts'
import { createPlanCache } from '../../packages/server/src/engine/plan-cache.ts'
import type { SchedulePlan } from '../../packages/server/src/ports/firing.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { zones } from './schedule/schedule-fixtures.ts'

const startMs = Date.UTC(2026, 11, 4, 8, 59)
const scheduledForMs = Date.UTC(2026, 11, 4, 9)

/** A calendar of single days, as it is when it is compiled. */
const calendarOf = (dates: readonly string[]): CalendarUse => ({
  id: 'c',
  name: 'holidays',
  use: 'skip',
  digest: dates.join(),
  compiled(zone, all) {
    const compiled = compileCalendar({ name: 'holidays', dates }, all, zone)
    return compiled.ok ? compiled : { ok: false, error: 'refused' }
  },
})

const planWith = (calendars: readonly CalendarUse[]): SchedulePlan => ({
  scheduleId: 's',
  tenantId: 't',
  gen: 1,
  version: 1,
  spec: { cron: '0 9 * * *', dialect: 'unix' },
  zone: 'UTC',
  startAtMs: null,
  endAtMs: null,
  calendars,
  onExcluded: 'skip',
  jitterMs: 0,
  flexibleWindowMs: 0,
  catchUp: { policy: 'latest', windowMs: 86_400_000, maxRuns: 1 },
  overlap: 'skip',
  runLimit: null,
  sleepUntilMs: null,
  sleepReason: null,
  queue: 'default',
  priority: 0,
  target: 'job',
  tenantWeight: 1,
})

const timer: ScheduleTimer = {
  kind: 'schedule',
  id: 's',
  tenantId: 't',
  shard: 0,
  gen: 1,
  scheduledForMs,
  dueAtMs: scheduledForMs,
}

test.each([
  { calendars: [calendarOf(['2026-12-25'])], old: true },
  { calendars: [], old: false },
])('after a minute a decision by $calendars.length calendars is old: $old', async ({ calendars, old }) => {
  const clock = createVirtualClock(startMs)
  let plan = planWith(calendars)
  const plans = createPlanCache({ clock, zones, maxPlans: 10, firing: { plans: async () => [plan] } })
  const preparer = createFirePreparer(plans)
  await preparer.load([timer])
  const ready = preparer.onTime(timer)
  if (ready === undefined) throw new Error('nothing was decided')
  const entry = { timer, ready }
  expect(preparer.needsPlan(entry, scheduledForMs)).toBe(false)

  // Meanwhile the day has become one of the calendar's.
  plan = planWith(calendars.length === 0 ? [] : [calendarOf(['2026-12-04'])])
  await clock.advance(60_001)
  expect(preparer.needsPlan(entry, scheduledForMs)).toBe(old)
  await preparer.load([timer])
  const decided = preparer.decide(entry, timer, scheduledForMs)
  const outcomes = 'fire' in decided ? decided.fire.occurrences.map(({ outcome }) => outcome) : decided
  expect(outcomes).toEqual([old ? 'skipped' : 'ran'])
})
