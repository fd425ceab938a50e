// What becomes of a timer when its zone has other rules: never retroactive, nothing lost.
import { afterAll, describe, expect, test } from 'vitest'
import { nearMs, replan, type ReplanQuestion } from '../../packages/server/src/domain/replan.ts'
import {
  compileScheduleIn,
  type ScheduleSpec,
} from '../../packages/server/src/domain/schedule/schedule-spec.ts'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'
import { fixedZone, removeZoneTrees, zonesOf } from '../support/zone-trees.ts'

const zone = 'Europe/Berlin'
const hourMs = 3_600_000

afterAll(removeZoneTrees)

/** The zone has this offset from UTC for ever. */
const zonesAt = (hours: number): ZoneSource =>
  zonesOf({
    version: '2099a',
    zones: [zone],
    altered: { [zone]: fixedZone(hours) },
  })
const early = zonesAt(2)
const late = zonesAt(-1)

const at = (text: string): number => Date.parse(`${text}Z`)
const daily = { kind: 'cron', dialect: 'unix', expression: '0 9 * * *', zone } as const satisfies ScheduleSpec

function ask(
  spec: ScheduleSpec,
  zones: ZoneSource,
  timer: string,
  now: string,
  more: Partial<ReplanQuestion> & { dueAt?: string; endAt?: string } = {},
): ReturnType<typeof replan> {
  const { dueAt = timer, endAt, ...rest } = more
  const compiled = compileScheduleIn(spec, zones, endAt === undefined ? {} : { endAtMs: at(endAt) })
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.error))
  const policy = { scheduleId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', jitterMs: 0, flexibleWindowMs: 0 }
  const times = { scheduledForMs: at(timer), dueAtMs: at(dueAt) }
  return replan({ policy, times: compiled.value, timer: times, nowMs: at(now), sinceMs: at(now), ...rest })
}

const movedTo = (text: string) => ({ kind: 'moved', next: { scheduledForMs: at(text), dueAtMs: at(text) } })

describe('a planned time ahead', () => {
  test('moves to the next one by the new rules, earlier or later', () => {
    expect(ask(daily, early, '2026-06-02T08:00', '2026-06-01T12:00')).toEqual(movedTo('2026-06-02T07:00'))
    expect(ask(daily, late, '2026-06-02T08:00', '2026-06-01T12:00')).toEqual(movedTo('2026-06-02T10:00'))
  })

  test('stays where the new rules say the same', () => {
    expect(ask(daily, early, '2026-06-02T07:00', '2026-06-01T12:00')).toEqual({ kind: 'same' })
    const rate = { kind: 'rate', everyMs: hourMs, anchorMs: at('2026-06-01T00:30'), zone } as const
    expect(ask(rate, early, '2026-06-01T12:30', '2026-06-01T12:00')).toEqual({ kind: 'same' })
  })

  test('moves its start where only the jitter has another room', () => {
    const policy = { scheduleId: 's', jitterMs: 600_000, flexibleWindowMs: 0 }
    const answer = ask(daily, early, '2026-06-02T07:00', '2026-06-01T12:00', { policy })
    expect(answer).toMatchObject({ kind: 'moved', next: { scheduledForMs: at('2026-06-02T07:00') } })
  })

  test('lies strictly after now, so that a time of today which is over does not come back', () => {
    expect(ask(daily, early, '2026-06-02T08:00', '2026-06-02T07:00')).toEqual(movedTo('2026-06-03T07:00'))
  })
})

describe('what is due or about to be', () => {
  test('is left to fire, also while it waits for its jitter', () => {
    const now = '2026-06-02T08:00'
    expect(ask(daily, early, '2026-06-02T08:00', now)).toEqual({ kind: 'due' })
    expect(ask(daily, early, '2026-06-02T08:00', now, { dueAt: '2026-06-02T08:20' })).toEqual({ kind: 'due' })
  })

  test('is looked at again where it stays, and moves where it does not', () => {
    const now = new Date(at('2026-06-02T07:00') - nearMs).toISOString().slice(0, -1)
    expect(ask(daily, early, '2026-06-02T07:00', now)).toEqual({ kind: 'due' })
    expect(ask(daily, late, '2026-06-02T07:00', now)).toEqual(movedTo('2026-06-02T10:00'))
  })
})

describe('a planned time that the new rules put into the past', () => {
  const since = at('2026-06-01T08:00')

  test('is not lost: it depends on whether it has fired', () => {
    // 09:00 was to be at 10:00Z and is now said to have been at 07:00Z; it is 09:00Z
    const answer = ask(daily, early, '2026-06-02T10:00', '2026-06-02T09:00', { sinceMs: since })
    expect(answer).toEqual({
      kind: 'asks',
      fromMs: at('2026-06-02T07:00'),
      ifOnRecord: movedTo('2026-06-03T07:00'),
      otherwise: { kind: 'same' },
    })
  })

  test('is none of a schedule that was made or edited after it', () => {
    const sinceMs = at('2026-06-02T08:00')
    const answer = ask(daily, early, '2026-06-02T10:00', '2026-06-02T09:00', { sinceMs })
    expect(answer).toEqual(movedTo('2026-06-03T07:00'))
  })

  test('of one that fires once: it fires when it was to', () => {
    const once = { kind: 'at', at: '2026-06-02T09:00:00', zone } as const
    expect(ask(once, early, '2026-06-02T10:00', '2026-06-02T09:00')).toEqual({ kind: 'same' })
    expect(ask(once, early, '2026-06-02T10:00', '2026-06-02T06:00')).toEqual(movedTo('2026-06-02T07:00'))
  })
})

test('a schedule of which no planned time is left has ended', () => {
  const end = { endAt: '2026-06-02T09:00' }
  expect(ask(daily, late, '2026-06-02T08:00', '2026-06-01T12:00', end)).toEqual({ kind: 'ended' })
})
