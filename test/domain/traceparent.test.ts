// The trace context of an attempt is well-formed, and the trace is the run.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { attemptTraceparent } from '../../packages/server/src/domain/traceparent.ts'

const runId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

test('the trace id is the run id, the span id comes from chance', () => {
  expect(attemptTraceparent(runId, 0x80_ff40 / 2 ** 32, 1 / 2 ** 32)).toBe(
    '00-019ad0c17f3e7c639a526e4d8c1b2a3f-0080ff4000000001-01',
  )
})

test('is valid for any chance, and the span is never all zeros', () => {
  const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(fc.uuid(), chance, chance, (id, upper, lower) => {
      const text = attemptTraceparent(id, upper, lower)
      expect(text).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
      expect(text).not.toContain('-0000000000000000-')
    }),
  )
  expect(attemptTraceparent(runId, 0, 0)).toContain('-0000000000000001-')
})
