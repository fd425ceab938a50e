// Verdicts and sentences of an explanation, from facts alone: what no ledger of a test would show easily, and
// that each case has words and names what to change.

import { describe, expect, test } from 'vitest'
import { type OccurrenceReason, occurrenceReasons, type RunState, runStates } from '@belfry/contract'
import type {
  ExplainMoment,
  KnownTimes,
  RecordFacts,
  ScheduleFacts,
} from '../../packages/server/src/domain/explanation/facts.ts'
import { standingWords } from '../../packages/server/src/domain/explanation/standing-words.ts'
import {
  instantWords,
  localText,
  spanWords,
} from '../../packages/server/src/domain/explanation/time-words.ts'
import { explainTime } from '../../packages/server/src/domain/explanation/verdict.ts'
import { runWords } from '../../packages/server/src/domain/explanation/verdict-words.ts'
import { compiled, cronSpec, instant, zone } from './schedule/schedule-fixtures.ts'

const hourMs = 3_600_000
const nowMs = instant('2026-06-10T12:30:00Z')
const berlin = zone('Europe/Berlin')
const moment: ExplainMoment = {
  nowMs,
  keptFromMs: instant('2026-05-11T00:00:00Z'),
  retentionDays: 30,
  dataVersion: '2026f',
  zone: berlin,
}
const made = instant('2026-01-01T00:00:00Z')
const hourly = compiled(cronSpec('0 * * * *', 'Europe/Berlin'))
const schedule: ScheduleFacts = {
  state: 'active',
  createdAtMs: made,
  deletedAtMs: null,
  endedItself: false,
  timingSinceMs: made,
  startAtMs: null,
  endAtMs: null,
  pausedAtMs: null,
  pausedFromMs: null,
  pausedReason: null,
  sleep: null,
  runLimit: null,
  runCount: 0,
  next: { scheduledForMs: instant('2026-06-10T13:00:00Z'), dueAtMs: instant('2026-06-10T13:00:00Z') },
  overlap: 'skip',
  catchUp: { policy: 'latest', windowMs: 365 * 24 * hourMs, maxRuns: 100 },
}
const row = (more: Partial<RecordFacts>): RecordFacts => ({
  scheduledForMs: nowMs - hourMs / 2,
  outcome: 'skipped',
  reason: 'overlap',
  detail: null,
  missedCount: 1,
  dueAtMs: nowMs - hourMs / 2,
  firedAtMs: nowMs - hourMs / 2,
  runId: null,
  run: null,
  backfillId: null,
  ...more,
})

function told(
  timeMs: number,
  more: Partial<ScheduleFacts> = {},
  record?: RecordFacts,
  times: KnownTimes = hourly,
) {
  return explainTime({ schedule: { ...schedule, ...more }, times, moment, sums: [] }, timeMs, record)
}

describe('verdicts', () => {
  test.each([
    ['to come', instant('2026-06-10T13:00:00Z'), {}, 'not_yet'],
    ['to come, and none', instant('2026-06-10T13:10:00Z'), {}, 'not_planned'],
    ['none', instant('2026-06-10T11:10:00Z'), {}, 'not_planned'],
    ['a day that is not kept', instant('2026-05-10T23:00:00Z'), {}, 'pruned'],
    ['the first day that is kept', instant('2026-05-11T00:00:00Z'), {}, 'no_record'],
    ['before an edit', nowMs - 2 * hourMs - hourMs / 2, { timingSinceMs: nowMs - hourMs }, 'older_timing'],
    ['the moment it was made', made, {}, 'before_creation'],
    ['before its start', made + hourMs, { startAtMs: made + 2 * hourMs }, 'before_start'],
    ['its end', nowMs + hourMs / 2, { endAtMs: nowMs + hourMs / 2 }, 'after_end'],
    [
      'after the next time',
      nowMs - hourMs / 2,
      { next: schedule.next && { scheduledForMs: nowMs - hourMs * 1.5, dueAtMs: nowMs - hourMs } },
      'due',
    ],
  ] as const)('%s', (_, timeMs, more, verdict) => {
    expect(told(timeMs, more).verdict).toBe(verdict)
  })

  test('what is no planned time is none before the creation either', () => {
    expect(told(made - hourMs / 2)).toMatchObject({ verdict: 'not_planned', fix: null })
    expect(told(made - hourMs).verdict).toBe('before_creation')
  })

  test('a backfill is advised of what the timing of today plans alone', () => {
    const skipped = (timeMs: number) =>
      told(timeMs, {}, row({ scheduledForMs: timeMs, reason: 'paused' })).fix
    expect(skipped(nowMs - hourMs / 2)).toBe('A backfill over this time runs it after all.')
    expect(skipped(nowMs - hourMs / 2 + 60_000)).toBe(
      'The timing of today does not plan this time, so a backfill does not run it: trigger a run for it.',
    )
  })

  test('a time of its own that the timer has, and no plan, is a planned one', () => {
    const own = { scheduledForMs: nowMs - 60_000, dueAtMs: nowMs - 60_000 }
    expect(told(own.scheduledForMs, { next: own }).verdict).toBe('due')
  })

  test('what a calendar will leave out is told before', () => {
    const times = { ...hourly, exclusionOf: () => ({ detail: 'the calendar holidays excludes it: Sunday' }) }
    const explained = told(instant('2026-06-10T13:00:00Z'), {}, undefined, times)
    expect(explained.message).toContain('will be skipped: the calendar holidays excludes it: Sunday.')
    expect(explained.fix).toBe('Change the calendar.')
  })

  test('a record goes before everything else, also of a time that is planned no more', () => {
    expect(told(made - 1, { state: 'deleted' }, row({ scheduledForMs: made - 1 })).verdict).toBe('skipped')
  })
})

describe('sentences', () => {
  test.each(occurrenceReasons)('%s says why, and what to change', (reason: OccurrenceReason) => {
    const missed = reason.startsWith('catch_up')
    const { message, fix } = told(
      nowMs - hourMs / 2,
      { runLimit: 5 },
      row({ reason, outcome: missed ? 'missed' : 'skipped', detail: reason === 'asleep' ? 'stock' : null }),
    )
    expect(message).toMatch(missed ? /^It was missed: .{20,}\.$/ : /^It was skipped: .{20,}\.$/)
    expect(message).not.toMatch(/undefined|null|NaN/)
    expect(fix).toMatch(/^[A-Z"].{15,}\.$/)
    expect(message.includes(': stock.')).toBe(reason === 'asleep')
  })

  test.each(runStates)('a run that is %s', (state: RunState) => {
    expect(
      runWords({ id: 'r', ofWorkflow: false, state, reason: null, startedAtMs: null, finishedAtMs: null }),
    ).toMatch(/^the run r \w+/)
  })

  test('a run tells how late it started, and why it may wait', () => {
    const run = {
      id: 'r',
      ofWorkflow: false,
      reason: null,
      startedAtMs: nowMs - hourMs / 2 + 65_000,
      finishedAtMs: nowMs,
    }
    const ran = { outcome: 'ran', reason: null, runId: 'r' } as const
    const ended = told(nowMs - hourMs / 2, {}, row({ ...ran, run: { ...run, state: 'succeeded' } }))
    expect(ended.message).toBe('It ran: the run r succeeded. Started 1 minute and 5 seconds late.')
    const failed = told(
      nowMs - hourMs / 2,
      {},
      row({ ...ran, run: { ...run, state: 'failed', reason: 'quarantined' } }),
    )
    expect([failed.message, failed.fix]).toEqual([
      'It ran: the run r failed (quarantined). Started 1 minute and 5 seconds late.',
      'The attempts of the run r say why.',
    ])
    const again = row({ ...ran, backfillId: 'b', run: { ...run, state: 'succeeded' } })
    expect(told(nowMs - hourMs / 2, {}, again).message).toBe(
      'The backfill b ran it: the run r succeeded. Started 1 minute and 5 seconds late.',
    )
    const gone = told(nowMs - hourMs / 2, {}, row(ran))
    expect(gone.message).toBe('It ran, on time; the run r is not kept any more.')
  })

  test('how it stands', () => {
    expect(standingWords(schedule, moment, null)).toBe(
      'It is active; next is Wed 2026-06-10 15:00:00 +02:00, in 30 minutes.',
    )
    const delayed = { scheduledForMs: nowMs - 60_000, dueAtMs: nowMs + 60_000 }
    expect(standingWords({ ...schedule, next: delayed }, moment, null)).toContain(
      '2 minutes later by its delay, in 1 minute',
    )
    expect(standingWords({ ...schedule, sleep: { untilMs: nowMs - 1, reason: '' } }, moment, null)).toContain(
      'It is active',
    )
    const paused = { ...schedule, state: 'paused', pausedAtMs: nowMs, pausedReason: '', next: null } as const
    expect(standingWords(paused, moment, null)).toMatch(/^It is paused since Wed .* \+02:00\. What falls due/)
    const failed = { ...paused, pausedReason: 'The last 3 runs failed.' }
    expect(standingWords(failed, moment, null)).toContain(': The last 3 runs failed. What falls due')
    const gone = { ...schedule, state: 'deleted', deletedAtMs: nowMs, endedItself: true } as const
    expect(standingWords({ ...gone, runLimit: 3, runCount: 3 }, moment, null)).toMatch(
      /^It was deleted on Wed .*, by itself when it completed: it has started 3 of 3 runs; its history/,
    )
    const ended = { ...schedule, state: 'completed', endAtMs: nowMs - 1 } as const
    expect(standingWords(ended, moment, null)).toContain('its end, Wed 2026-06-10')
  })
})

describe('how it stands where the planned time does not run', () => {
  const later = { atMs: nowMs + 3 * hourMs, lookedToMs: null, leftOut: null }
  const sleep = { untilMs: nowMs + 2 * hourMs, reason: 'stock-taking.' }

  test('what runs next is named, and why the planned one does not', () => {
    const shut = { ...later, leftOut: 'the calendar shut excludes it: Saturday' }
    expect(standingWords(schedule, moment, shut)).toBe(
      'It is active; next is Wed 2026-06-10 17:30:00 +02:00, in 3 hours. ' +
        'Wed 2026-06-10 15:00:00 +02:00 does not run: the calendar shut excludes it: Saturday.',
    )
    expect(standingWords({ ...schedule, sleep }, moment, later)).toBe(
      'It is asleep until Wed 2026-06-10 16:30:00 +02:00: stock-taking. ' +
        'What comes before is skipped; next is Wed 2026-06-10 17:30:00 +02:00, in 3 hours.',
    )
    const woke = { ...schedule, sleep: { ...sleep, untilMs: nowMs - 1 } }
    expect(standingWords(woke, moment, later)).toMatch(/does not run: it was asleep until Wed .* \+02:00\.$/)
  })

  test('that none is left, or none was found', () => {
    const none = { ...later, atMs: null }
    expect(standingWords({ ...schedule, sleep }, moment, none)).toMatch(
      /skipped; nothing that runs is left\.$/,
    )
    const shut = { ...none, lookedToMs: nowMs + hourMs, leftOut: 'the calendar shut excludes it' }
    expect(standingWords(schedule, moment, shut)).toMatch(
      /^It is active; nothing up to Wed 2026-06-10 15:30:00 \+02:00 runs\. Wed .* excludes it\.$/,
    )
  })
})

describe('time in words', () => {
  test('an instant is told on the wall clock, also half an hour apart and west', () => {
    expect(instantWords(instant('2026-03-29T01:00:00Z'), berlin)).toBe('Sun 2026-03-29 03:00:00 +02:00')
    expect(localText(instant('2026-03-29T01:00:00Z'), zone('Asia/Kolkata'))).toBe('2026-03-29T06:30:00+05:30')
    expect(localText(instant('2026-03-29T01:00:00Z'), zone('America/St_Johns'))).toBe(
      '2026-03-28T22:30:00-02:30',
    )
  })

  test.each([
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1 second'],
    [1_400, '1 second'],
    [9_999, '10 seconds'],
    [59_700, '1 minute'],
    [61_000, '1 minute and 1 second'],
    [3_600_000, '1 hour'],
    [3_601_000, '1 hour'],
    [90_000_000, '1 day and 1 hour'],
    [400 * 24 * hourMs, '400 days'],
  ])('%s ms', (ms, words) => {
    expect(spanWords(ms)).toBe(words)
  })
})
