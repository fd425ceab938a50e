// What a job may say of a target that takes runs over, and what such a target may report.
import { callbackReportSchema, httpHandlerSchema } from '@belfry/contract'
import { expect, test } from 'vitest'

const pointersOf = (async: unknown): readonly string[] => {
  const url = 'https://example.com/'
  const { error } = httpHandlerSchema.safeParse({ kind: 'http', url, async })
  return (error?.issues ?? []).map(({ path }) => path.join('/'))
}

test.each([
  [{ deadlineMs: 1_000 }, []],
  [{ deadlineMs: 30 * 86_400_000, heartbeatMs: 86_400_000 }, []],
  [{}, ['async/deadlineMs']],
  [{ deadlineMs: 999 }, ['async/deadlineMs']],
  [{ deadlineMs: 30 * 86_400_000 + 1 }, ['async/deadlineMs']],
  [{ deadlineMs: 60_000, heartbeatMs: 60_001 }, ['async/heartbeatMs']],
  [{ deadlineMs: 60_000, heartbeatMs: 1 }, ['async/heartbeatMs']],
  [{ deadlineMs: 60_000, url: 'http://x' }, ['async']],
])('async %j is refused at %j', (async, pointers) => {
  expect(pointersOf(async)).toEqual(pointers)
})

test('reports are closed, and retryable unless they say otherwise', () => {
  const error = { code: 'x', message: '' }
  expect(callbackReportSchema.parse({ action: 'fail', error })).toEqual({
    action: 'fail',
    error,
    retryable: true,
  })
  for (const bad of [
    { action: 'complete', runId: 'x' },
    { action: 'fail', error: { ...error, stack: '' } },
    { action: 'log', firstLine: -1, lines: [] },
    { action: 'heartbeat', progress: 'x'.repeat(20_000) },
    { action: 'release' },
  ]) {
    expect(callbackReportSchema.safeParse(bad).success, JSON.stringify(bad).slice(0, 60)).toBe(false)
  }
})
