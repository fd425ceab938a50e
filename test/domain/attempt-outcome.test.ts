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
  errorCode: null,
  httpStatus: null,
  leftMs: null,
}
const judge = (more: Partial<AttemptCase>) => judgeAttempt({ ...base, ...more }, 0.5)

const endings = fc.constantFrom<AttemptEnding>(
  { kind: 'succeeded' },
  { kind: 'failed', retryable: true },
  { kind: 'failed', retryable: false },
  { kind: 'failed', retryable: true, retryAfterMs: 5_000 },
  { kind: 'timed_out' },
  { kind: 'timed_out', ofRun: true },
  { kind: 'canceled' },
  { kind: 'skipped' },
  { kind: 'released' },
  { kind: 'lost' },
)
const cases = fc.record({
  ending: endings,
  delivery: fc.constantFrom('at_least_once' as const, 'at_most_once' as const),
  retry: fc
    .record({
      maxAttempts: fc.integer({ min: 1, max: 1_000 }),
      retryOn: fc.constantFrom([], ['http_5*'], ['attempt_timeout']),
      neverRetryOn: fc.constantFrom([], ['ECONN*'], ['http_429']),
    })
    .map((fields) => retryPolicySchema.parse(fields)),
  failures: fc.integer({ min: 0, max: 1_000 }),
  crashCount: fc.integer({ min: 0, max: 5 }),
  cancelRequested: fc.boolean(),
  errorCode: fc.constantFrom(null, 'http_status', 'attempt_timeout', 'ECONNRESET'),
  httpStatus: fc.constantFrom(null, 429, 503),
  leftMs: fc.option(fc.integer({ min: -1_000, max: 600_000 })),
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
  for (const kind of ['timed_out', 'canceled', 'skipped', 'released', 'lost'] as const) {
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

describe('the deadline of the whole run', () => {
  test('a next attempt that would be due after it never comes', () => {
    expect(judge({ leftMs: 999 })).toMatchObject({ runState: 'failed', reason: 'deadline_exceeded' })
    expect(judge({ leftMs: 1_000 })).toMatchObject({ reason: 'deadline_exceeded', countAs: 'failure' })
    expect(judge({ leftMs: 1_001 })).toMatchObject({ runState: null, retryDelayMs: 1_000 })
    const asked = { kind: 'failed', retryable: true, retryAfterMs: 60_000 } as const
    expect(judge({ ending: asked, leftMs: 59_999 })).toMatchObject({ reason: 'deadline_exceeded' })
    expect(judge({ ending: { kind: 'released' }, leftMs: 0 })).toMatchObject({
      outcome: 'released',
      reason: 'deadline_exceeded',
    })
    expect(judge({ ending: { kind: 'lost' }, leftMs: 500 })).toMatchObject({ reason: 'deadline_exceeded' })
  })

  test('one that runs is cut off at it', () => {
    expect(judge({ ending: { kind: 'timed_out', ofRun: true }, leftMs: 0 })).toEqual({
      outcome: 'timed_out',
      runState: 'failed',
      reason: 'deadline_exceeded',
      retryDelayMs: null,
      countAs: 'failure',
    })
  })

  test('other ends keep their own reason', () => {
    expect(judge({ leftMs: -1, ending: { kind: 'succeeded' } }).runState).toBe('succeeded')
    expect(judge({ leftMs: -1, cancelRequested: true }).reason).toBe('canceled_by_request')
    expect(judge({ leftMs: 10, failures: 2 }).reason).toBe('attempts_exhausted')
  })

  test('no pause ever reaches it', () => {
    fc.assert(
      fc.property(cases, random(), (each, chance) => {
        const { retryDelayMs } = judgeAttempt(each, chance)
        expect(retryDelayMs ?? -Infinity).toBeLessThan(each.leftMs ?? Infinity)
      }),
    )
  })
})

describe('codes', () => {
  const final = { kind: 'failed', retryable: false } as const
  const policy = (fields: object) => retryPolicySchema.parse({ jitter: 'none', ...fields })

  test('only those of retryOn are tried again, also where they would be final', () => {
    const retry = policy({ retryOn: ['http_404', 'http_5xx'] })
    const status = (httpStatus: number) => judge({ retry, errorCode: 'http_status', httpStatus }).reason
    expect([404, 503, 599, 429].map(status)).toEqual([null, null, null, 'not_retryable'])
    const gone = { retry, ending: final, errorCode: 'http_status', httpStatus: 404 }
    expect(judge(gone)).toMatchObject({ runState: null, retryDelayMs: 1_000 })
    expect(judge({ retry, errorCode: 'ECONNRESET' }).reason).toBe('not_retryable')
  })

  test('a timeout has a code as well', () => {
    const timedOut = { ending: { kind: 'timed_out' }, errorCode: 'attempt_timeout' } as const
    expect(judge({ ...timedOut, retry: policy({ neverRetryOn: ['attempt_*'] }) })).toMatchObject({
      outcome: 'timed_out',
      reason: 'not_retryable',
    })
    expect(judge({ ...timedOut, retry: policy({ retryOn: ['attempt_timeout'] }) }).reason).toBeNull()
  })

  test('neverRetryOn wins over retryOn and Retry-After, not over a lost worker', () => {
    const retry = policy({ retryOn: ['http_*'], neverRetryOn: ['http_503'] })
    const busy = { kind: 'failed', retryable: true, retryAfterMs: 1 } as const
    expect(judge({ retry, ending: busy, errorCode: 'http_status', httpStatus: 503 }).reason).toBe(
      'not_retryable',
    )
    const lost = { retry: policy({ neverRetryOn: ['worker_*'] }), ending: { kind: 'lost' } } as const
    expect(judge({ ...lost, errorCode: 'worker_lost' })).toMatchObject({ runState: null, countAs: 'crash' })
  })

  test('at most once stays at most once', () => {
    const retry = policy({ retryOn: ['http_5xx'] })
    const verdict = judge({ retry, delivery: 'at_most_once', errorCode: 'http_status', httpStatus: 503 })
    expect(verdict.runState).toBe('failed')
  })
})
