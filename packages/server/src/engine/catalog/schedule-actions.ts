/**
 * Decides what it means to pause, resume, skip, put to sleep or wake a schedule. Pure, as schedule-editor.ts.
 *
 *   1. A pause takes the timer away. A resume plans strictly after now; what was passed over meanwhile goes
 *      on record and does not run.
 *   2. A skip is a sleep until just after the last time that is to be skipped, and never shortens one. The
 *      timer goes on, and each fire records what it finds asleep.
 *   3. Waking makes up for nothing.
 */
import { BelfryError } from '@belfry/contract'
import { keptTimes } from '../../domain/calendar/kept-times.ts'
import { plannedTimeAfter } from '../../domain/firing.ts'
import type { ScheduleChange, ScheduleRecord } from '../../ports/schedule-store.ts'
import { nothingOnRecord, passedOver } from './paused-span.ts'
import type { Moment } from './said-timing.ts'
import { compileCurrent, delayOf, unmoved } from './schedule-editor.ts'

/** Stops it until it is resumed. */
export function planPause(current: ScheduleRecord, reason: string, nowMs: number): ScheduleChange {
  if (current.state !== 'active')
    throw wrongState(current, 'paused', 'Only an active schedule can be paused.')
  // what lies before the next planned time is on record
  const pausedFromMs = current.next === null ? nowMs : current.next.scheduledForMs - 1
  return {
    ...unmoved(current, current),
    state: 'paused',
    pausedReason: reason,
    pausedFromMs,
    timer: { kind: 'drop' },
  }
}

/** Goes on from now. Throws `invalid_schedule` for a timing that cannot be read. */
export function planResume(current: ScheduleRecord, moment: Moment): ScheduleChange {
  if (current.state !== 'paused')
    throw wrongState(current, 'resumed', 'Only a paused schedule can be resumed.')
  const compiled = compileCurrent(current, moment)
  const next = plannedTimeAfter(delayOf(current.id, current), compiled, moment.nowMs)
  const settings = { ...current, zoneDataVersion: moment.zones.dataVersion }
  return {
    ...unmoved(current, settings),
    state: next === null ? 'completed' : 'active',
    pausedReason: null,
    pausedFromMs: null,
    forgivesFailures: true,
    timer: next === null ? { kind: 'drop' } : { kind: 'set', next },
    records: passedOver(current, compiled, moment.nowMs, moment.onRecord ?? nothingOnRecord),
  }
}

/**
 * Leaves out the next `count` planned times, or as many as are left. Undefined where it sleeps longer than
 * that already.
 */
export function planSkip(
  current: ScheduleRecord,
  { count, reason }: { readonly count: number; readonly reason: string },
  moment: Moment,
): ScheduleChange | undefined {
  if (current.state !== 'active' || current.next === null)
    throw wrongState(current, 'skipped', 'Only an active schedule has planned times to skip.')
  const compiled = compileCurrent(current, moment)
  const nextMs = current.next.scheduledForMs
  // The next one may stand in no plan; what calendars leave out does not run anyway.
  const planned = compiled.next(nextMs - 1) === nextMs
  const { times } = keptTimes(compiled, 'next', nextMs - 1, planned ? count : count - 1)
  const lastMs = times.at(-1) ?? nextMs
  const untilMs = lastMs + 1
  if (current.sleep !== null && current.sleep.untilMs > untilMs) return undefined
  return { ...unmoved(current, current), sleep: { untilMs, reason } }
}

/** Leaves out the planned times before `untilMs`. Throws `invalid_request` for an instant that is over. */
export function planSleep(
  current: ScheduleRecord,
  { untilMs, reason }: { readonly untilMs: number; readonly reason: string },
  nowMs: number,
): ScheduleChange {
  if (untilMs <= nowMs) {
    const message = `is over: now is ${new Date(nowMs).toISOString()}; give a later time`
    throw new BelfryError('invalid_request', `The end of the sleep ${message}.`, {
      errors: [{ pointer: '/until', message }],
    })
  }
  if (current.state !== 'active')
    throw wrongState(current, 'put to sleep', 'Only an active schedule can sleep.')
  return { ...unmoved(current, current), sleep: { untilMs, reason } }
}

/** Ends a sleep or a skip, also of a schedule that was paused meanwhile. */
export function planWake(current: ScheduleRecord, nowMs: number): ScheduleChange {
  if (current.sleep === null || current.sleep.untilMs <= nowMs)
    throw new BelfryError('invalid_state', 'The schedule is awake. Only one that sleeps can be woken.')
  return { ...unmoved(current, current), sleep: null }
}

function wrongState(current: ScheduleRecord, done: string, rule: string): BelfryError {
  return new BelfryError('invalid_state', `The schedule is ${current.state} and cannot be ${done}. ${rule}`)
}
