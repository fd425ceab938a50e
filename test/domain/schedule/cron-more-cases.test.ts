// The second case file, written for Belfry: what must be answered, with who says so, and what must be
// refused, with the field that the refusal names.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { findDialect } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import { parseRate } from '../../../packages/server/src/domain/schedule/rate.ts'
import { isNeverFires } from '../../../packages/server/src/domain/schedule/schedule-fault.ts'
import type { ScheduleFault } from '../../../packages/server/src/domain/schedule/schedule-fault.ts'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, faultsOf, instant, iso, nextTimes } from './schedule-fixtures.ts'

type Case = {
  readonly id: string
  readonly dialect: string
  readonly expr: string
  readonly tz: string
  readonly from: string
  readonly start?: string
  readonly next: readonly string[]
  readonly last?: boolean
  readonly why: string
}
type Refused = {
  readonly dialect: string
  readonly pointer: string
  readonly why: string
  readonly expressions: readonly string[]
}

const path = new URL('../../cases/cron-more.json', import.meta.url)
const file = JSON.parse(readFileSync(path, 'utf8')) as {
  readonly cases: readonly Case[]
  readonly refused: readonly Refused[]
}

/** A spec, or the fault of a rate, which is read before there is one. */
function specOf(kind: string, text: string, zone: string, start?: string): ScheduleSpec | ScheduleFault {
  const dialect = findDialect(kind)
  if (dialect !== undefined) return { kind: 'cron', dialect, expression: text, zone }
  if (kind === 'at') return { kind: 'at', at: text, zone }
  const period = parseRate(text)
  if (!period.ok) return period.error
  return { kind: 'rate', everyMs: period.value, zone, ...(start ? { anchorMs: instant(start) } : {}) }
}

describe('cases/cron-more.json', () => {
  test.each(file.cases)('$id $dialect $expr in $tz: $why', (entry) => {
    const spec = specOf(entry.dialect, entry.expr, entry.tz, entry.start)
    if ('message' in spec) throw new Error(spec.message)
    const [fault] = faultsOf(spec)
    if (fault !== undefined && !isNeverFires(fault)) throw new Error(fault.message)
    const more = entry.last === true || entry.next.length === 0 ? 1 : 0
    const times = fault ? [] : nextTimes(compiled(spec), entry.from, entry.next.length + more)
    expect(times).toEqual(entry.next)
  })

  test.each(file.cases)('$id backwards', (entry) => {
    const spec = specOf(entry.dialect, entry.expr, entry.tz, entry.start)
    if ('message' in spec || entry.next.length === 0) return
    const schedule = compiled(spec)
    const times: string[] = []
    let timeMs: number | null = instant(entry.next.at(-1) ?? '') + 1
    while (timeMs !== null && times.length < entry.next.length) {
      timeMs = schedule.previous(timeMs)
      if (timeMs !== null) times.unshift(iso(timeMs))
    }
    expect(times).toEqual(entry.next)
  })

  const refusals = file.refused.flatMap(({ expressions, ...group }) =>
    expressions.map((expression) => ({ ...group, expression })),
  )
  test.each(refusals)(
    '$dialect $expression is refused at $pointer: $why',
    ({ dialect, expression, pointer }) => {
      const spec = specOf(dialect, expression, 'UTC')
      const [fault] = 'message' in spec ? [spec] : faultsOf(spec)
      expect(fault?.pointer).toBe(pointer)
      expect(fault?.message.length).toBeGreaterThan(15)
      // A fault of one field tells the place in the text, unless it is about several at once.
      const places = /at column \d+: |day of week cannot|"\?"|shortest/.test(fault?.message ?? '')
      expect(places || !/^\/cron\/./.test(pointer)).toBe(true)
    },
  )

  test('the file is whole', () => {
    expect(file.cases.length).toBeGreaterThan(290)
    expect(refusals.length).toBeGreaterThan(500)
    expect(new Set(file.cases.map(({ id }) => id)).size).toBe(file.cases.length)
  })
})
