// What a pause leaves on record, against a plain count of the times that have no row.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maxMissedRows } from '../../packages/server/src/domain/firing.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { passedOver } from '../../packages/server/src/engine/catalog/paused-span.ts'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'

const zones = openZoneSource()
const minuteMs = 60_000
const fromMs = Date.UTC(2026, 2, 29)
const untilMs = fromMs + 300 * minuteMs
const pause = { pausedFromMs: fromMs, pausedReason: '' }

function timesOf(spec: object, zone = 'UTC') {
  const stored = { scheduleId: 's', spec, zone, startAtMs: null, endAtMs: null }
  const compiled = compileStored(stored, zones)
  if (!compiled.ok) throw new Error(compiled.error)
  return compiled.value
}
const rate = timesOf({ every: '1m', everyMs: minuteMs, anchorMs: 0 })
// the clocks go forward within the span
const cron = timesOf({ cron: '* * * * *', dialect: 'unix' }, 'Europe/Berlin')
const planned = Array.from({ length: 300 }, (_, index) => fromMs + (index + 1) * minuteMs)

describe('the rows of a pause', () => {
  it.each([
    ['a rate', rate],
    ['a cron plan', cron],
  ])('of %s stand at times without a row, from the first on, and for as many', (_name, times) => {
    const stretches = fc.array(fc.tuple(fc.nat(299), fc.integer({ min: 1, max: 120 })), { maxLength: 6 })
    fc.assert(
      fc.property(stretches, (parts) => {
        const recorded = new Set(parts.flatMap(([start, length]) => planned.slice(start, start + length)))
        const timesMs = planned.filter((ms) => recorded.has(ms))
        const rows = passedOver(pause, times, untilMs, { timesMs, count: timesMs.length })
        const missing = planned.filter((ms) => !recorded.has(ms))
        expect(rows.filter(({ scheduledForMs }) => recorded.has(scheduledForMs))).toEqual([])
        expect(rows[0]?.scheduledForMs).toBe(missing[0])
        expect(rows.reduce((sum, { missedCount }) => sum + missedCount, 0)).toBe(missing.length)
        expect(rows.length).toBeLessThanOrEqual(maxMissedRows + 1)
      }),
    )
  })

  it('are not led onto a row by rows at times that are not of the plan', () => {
    const off = planned.slice(0, 100).map((ms) => ms + 1)
    const timesMs = [...planned.slice(0, 20), ...off].toSorted((a, b) => a - b)
    const [first] = passedOver(pause, rate, untilMs, { timesMs, count: timesMs.length })
    expect(planned).toContain(first?.scheduledForMs)
    expect(timesMs).not.toContain(first?.scheduledForMs)
    expect(first?.missedCount).toBeGreaterThan(1)
  })

  it('stand for at least one where more is on record than was read', () => {
    const timesMs = planned.slice(0, 50)
    const [first] = passedOver(pause, rate, untilMs, { timesMs, count: 200 })
    expect(first).toMatchObject({ scheduledForMs: planned[50], missedCount: 50 })
    const [least] = passedOver(pause, rate, untilMs, { timesMs, count: 1_000 })
    expect(least).toMatchObject({ scheduledForMs: planned[50], missedCount: 1 })
  })
})
