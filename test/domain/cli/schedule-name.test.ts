// Names made for schedules that were given none: valid, telling, and different for each attempt.
import { nameSchema } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { derivedName } from '../../../packages/cli/src/schedule-name.ts'

describe('derived names', () => {
  it.each([
    [{ url: 'https://example.com/hook', every: '5m' }, 'example.com-every-5m'],
    [{ url: 'http://localhost:9000/', every: 'rate(5 minutes)' }, 'localhost-9000-every-rate-5-minutes'],
    [{ url: 'http://[::1]:80/x', at: '2026-12-01T02:30:00.123Z' }, '1-at-20261201t023000z'],
    [{ job: 'report', cron: '30 2 * * *' }, 'report-cron-30-2-x-x-x'],
    [{ url: 'not a url', every: '1h' }, 'schedule-every-1h'],
  ])('%j', (parts, name) => {
    expect(derivedName(parts, 1)).toBe(name)
    expect(derivedName(parts, 2)).toBe(`${name}-2`)
  })

  it('are valid names, whatever they are made of', () => {
    const text = fc.option(fc.string({ unit: 'binary', maxLength: 200 }), { nil: undefined })
    const parts = fc.record({ url: text, job: text, every: text, cron: text, at: text })
    fc.assert(
      fc.property(parts, fc.integer({ min: 1, max: 50 }), (given, attempt) => {
        const name = derivedName(given, attempt)
        expect(nameSchema.safeParse(name).success, name).toBe(true)
        expect(derivedName(given, attempt + 1)).not.toBe(name)
      }),
    )
  })
})
