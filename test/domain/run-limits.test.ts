// The limits of a whole run: what a run gets from its job and its request, and how long an attempt may take.
import { jobDefinitionSchema } from '@belfry/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { attemptLimit, leftMs, limitsOf } from '../../packages/server/src/domain/run-limits.ts'

const definition = (limits: object = {}) =>
  jobDefinitionSchema.parse({ handler: { kind: 'function', name: 'f' }, ...limits })

test('limits count from the due time; a request wins over the job, and null lifts the limit', () => {
  expect(limitsOf(definition(), {}, 5_000)).toEqual({ startByMs: null, runDeadlineMs: null })
  const limited = definition({ startWithinMs: 1_000, runDeadlineMs: 60_000 })
  expect(limitsOf(limited, {}, 5_000)).toEqual({ startByMs: 6_000, runDeadlineMs: 65_000 })
  expect(limitsOf(limited, { startWithinMs: null, runDeadlineMs: 2_000 }, 5_000)).toEqual({
    startByMs: null,
    runDeadlineMs: 7_000,
  })
})

test.each([999, 2_592_000_001, 0, 1.5])('%d ms is no limit that is taken', (ms) => {
  const handler = { kind: 'function', name: 'f' }
  expect(jobDefinitionSchema.safeParse({ handler, startWithinMs: ms }).success).toBe(false)
  expect(jobDefinitionSchema.safeParse({ handler, runDeadlineMs: ms }).success).toBe(false)
})

test('an attempt may take the lesser of its own limit and what is left for the run', () => {
  expect(attemptLimit(60_000, null, 1_000)).toEqual({ limitMs: 60_000, ofRun: false })
  expect(attemptLimit(60_000, 100_000, 1_000)).toEqual({ limitMs: 60_000, ofRun: false })
  expect(attemptLimit(60_000, 31_000.2, 1_000)).toEqual({ limitMs: 30_001, ofRun: true })
  expect(attemptLimit(60_000, 500, 1_000)).toEqual({ limitMs: 0, ofRun: true })
})

test('it never ends before the run must, nor more than a millisecond after', () => {
  const ms = fc.double({ min: 0, max: 1e13, noNaN: true })
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 86_400_000 }), ms, ms, (timeoutMs, deadlineMs, nowMs) => {
      const { limitMs, ofRun } = attemptLimit(timeoutMs, deadlineMs, nowMs)
      expect(limitMs).toBeGreaterThanOrEqual(0)
      expect(limitMs).toBeLessThanOrEqual(timeoutMs)
      const left = leftMs(deadlineMs, nowMs) ?? Infinity
      const cut = ofRun ? Math.max(0, left) : timeoutMs
      expect(Math.abs(limitMs - cut)).toBeLessThanOrEqual(1)
    }),
  )
})
