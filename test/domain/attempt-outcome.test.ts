// What the end of an attempt means for its run, rule by rule and for all combinations.
import { isTerminal, retryPolicySchema } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type AttemptCase,
  type AttemptEnding,
  judgeAttempt,
} from '../../packages/server/src/domain/attempt-outcome.ts'
import { mayBecome } from '../../packages/server/src/domain/transitions.ts'

const base: AttemptCase = {
  ending: { kind: 'failed', retryable: true },
  delivery: 'at_least_once',
  retry: retryPolicySchema.parse({ jitter: 'none' }),
  failures: 0,
  crashCount: 0,
  cancelRequested: false,
}
const judge = (more: Partial<AttemptCase>) => judgeAttempt({ ...base, ...more }, 0.5)

const endings = fc.constantFrom<AttemptEnding>(
  { kind: 'succeeded' },
  { kind: 'failed', retryable: true },
  { kind: 'failed', retryable: false },
  { kind: 'failed', retryable: true, retryAfterMs: 5_000 },
  { kind: 'timed_out' },
  { kind: 'canceled' },
  { kind: 'released' },
  { kind: 'lost' },
)
const cases = fc.record({
  ending: endings,
  delivery: fc.constantFrom('at_least_once' as const, 'at_most_once' as const),
  retry: fc.integer({ min: 1, max: 1_000 }).map((maxAttempts) => retryPolicySchema.parse({ maxAttempts })),
  failures: fc.integer({ min: 0, max: 1_000 }),
  crashCount: fc.integer({ min: 0, max: 5 }),
  cancelRequested: fc.boolean(),
})

describe('at least once', () => {
  test('a failure is retried after its backoff and counts against the budget', () => {
    expect(judge({ failures: 1 })).toEqual({
      outcome: 'failed',
      runState: null,
      reason: null,
      retryDelayMs: 2_000,
      countAs: 'failure',
    })
  })

  test('the last permitted failure ends the run', () => {
    expect(judge({ failures: 2 })).toMatchObject({ runState: 'failed', reason: 'attempts_exhausted' })
  })

  test('a failure that cannot be mended by trying again ends the run at once', () => {
    expect(judge({ ending: { kind: 'failed', retryable: false } })).toMatchObject({
      runState: 'failed',
      reason: 'not_retryable',
    })
  })

  test('a timeout is retried like a failure', () => {
    expect(judge({ ending: { kind: 'timed_out' } })).toMatchObject({
      outcome: 'timed_out',
      runState: null,
      countAs: 'failure',
    })
    expect(judge({ ending: { kind: 'timed_out' }, failures: 2 })).toMatchObject({
      reason: 'attempts_exhausted',
    })
  })

  test('a release goes back at once and counts as nothing', () => {
    expect(judge({ ending: { kind: 'released' }, failures: 2 })).toEqual({
      outcome: 'released',
      runState: null,
      reason: null,
      retryDelayMs: 0,
      countAs: 'nothing',
    })
  })

  test('a lost worker counts as a crash, the third one quarantines', () => {
    const lost = { kind: 'lost' } as const
    expect(judge({ ending: lost, failures: 2 })).toMatchObject({
      runState: null,
      retryDelayMs: 500,
      countAs: 'crash',
    })
    expect(judge({ ending: lost, crashCount: 1 })).toMatchObject({ runState: null, retryDelayMs: 1_000 })
    expect(judge({ ending: lost, crashCount: 2 })).toMatchObject({
      runState: 'failed',
      reason: 'quarantined',
    })
  })
})

describe('at most once', () => {
  test('whatever is no success ends the run: the handler is never called again', () => {
    fc.assert(
      fc.property(cases, random(), (each, chance) => {
        const verdict = judgeAttempt({ ...each, delivery: 'at_most_once' }, chance)
        expect(verdict.runState).not.toBeNull()
        expect(verdict.retryDelayMs).toBeNull()
      }),
    )
  })

  test('says where nobody can know what the handler did', () => {
    const once = (ending: AttemptEnding) => judge({ delivery: 'at_most_once', ending })
    expect(once({ kind: 'lost' })).toMatchObject({
      outcome: 'lost',
      runState: 'failed',
      reason: 'outcome_unknown',
    })
    expect(once({ kind: 'timed_out' })).toMatchObject({ outcome: 'timed_out', reason: 'outcome_unknown' })
    expect(once({ kind: 'released' })).toMatchObject({ outcome: 'lost', reason: 'outcome_unknown' })
    expect(once({ kind: 'failed', retryable: true })).toMatchObject({
      outcome: 'failed',
      reason: 'not_retryable',
    })
  })
})

function random() {
  return fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
}

test('a cancel ends whatever is no success; a success stands', () => {
  for (const kind of ['timed_out', 'canceled', 'released', 'lost'] as const) {
    expect(judge({ ending: { kind }, cancelRequested: true })).toMatchObject({
      runState: 'canceled',
      reason: 'canceled_by_request',
    })
  }
  expect(judge({ cancelRequested: true }).runState).toBe('canceled')
  expect(judge({ ending: { kind: 'succeeded' }, cancelRequested: true }).runState).toBe('succeeded')
})

test('every verdict is either terminal or a pause, and a legal transition of a running run', () => {
  fc.assert(
    fc.property(cases, random(), (each, chance) => {
      const { runState, retryDelayMs } = judgeAttempt(each, chance)
      expect((runState === null) !== (retryDelayMs === null)).toBe(true)
      expect(mayBecome('running', runState ?? 'pending')).toBe(true)
      expect(runState === null || isTerminal(runState)).toBe(true)
    }),
  )
})
