// The public case file: every case must give exactly its answer, what is disputed what is recommended, and
// what is refused a pointer into the schedule. Jenkins cases with H give a property, and the published
// instants too, since the draws are the same.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { CronDialect } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import { parseRate } from '../../../packages/server/src/domain/schedule/rate.ts'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, faultsOf, instant, iso, nextTimes } from './schedule-fixtures.ts'

type Property = {
  readonly oncePer?: 'hour' | 'day'
  readonly hourIn?: readonly number[]
  readonly everyMinutes?: number
}

type Case = {
  readonly id: string
  readonly dialect: string
  readonly expr: string
  readonly tz?: string
  readonly from?: string
  readonly start?: string
  readonly seed?: string
  readonly next?: readonly string[]
  readonly recommended?: readonly string[] | null
  readonly answers?: readonly { readonly next?: readonly string[] }[]
  readonly property?: Property
  readonly invalid?: boolean
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DIALECTS: Readonly<Record<string, CronDialect>> = {
  unix: 'unix',
  k8s: 'kubernetes',
  github: 'github',
  quartz: 'quartz',
  eventbridge: 'eventbridge',
  jenkins: 'jenkins',
  'systemd-like': 'systemd',
}
const POINTERS = /^\/(?:zone|rate|cron(?:\/(?:second|minute|hour|dayOfMonth|month|dayOfWeek|year))?)$/

const file = new URL('../../cases/cron.json', import.meta.url)
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly Case[] }

function specOf(entry: Case): ScheduleSpec | null {
  const zone = entry.tz ?? 'UTC'
  const dialect = DIALECTS[entry.dialect]
  if (dialect !== undefined) {
    const seed = entry.seed === undefined ? {} : { seed: entry.seed }
    return { kind: 'cron', dialect, expression: entry.expr, zone, ...seed }
  }
  if (entry.dialect !== 'rate') throw new Error(`no such dialect: ${entry.dialect}`)
  const period = parseRate(entry.expr)
  if (!period.ok) return null
  return {
    kind: 'rate',
    everyMs: period.value,
    anchorMs: instant(entry.start ?? '1970-01-01T00:00:00Z'),
    zone,
  }
}

describe('cases/cron.json', () => {
  for (const entry of cases) {
    const title = `${entry.id} ${entry.dialect} ${entry.expr} ${entry.tz ?? ''}`
    if (entry.property === undefined) {
      test(title, () => {
        expect(answerOf(entry)).toEqual(wantedOf(entry))
      })
    } else {
      const property = entry.property
      test(title, () => {
        expect(hashedTimes(entry, property)).toEqual(wantedHash(entry, property))
      })
    }
  }

  test('the file is whole', () => {
    expect(cases.length).toBe(280)
    expect(new Set(cases.map((entry) => entry.dialect)).size).toBe(8)
  })
})

type Answer = 'refused' | readonly string[]

/** A date that never comes is refused at creation, or the schedule has no times: both answer none. */
function wantedOf(entry: Case): Answer {
  return entry.invalid ? 'refused' : (entry.next ?? entry.recommended ?? [])
}

function answerOf(entry: Case): Answer {
  const spec = specOf(entry)
  if (spec === null) return 'refused'
  const [fault] = faultsOf(spec)
  if (fault) {
    if (!POINTERS.test(fault.pointer)) throw new Error(`the fault points at ${fault.pointer}`)
    return fault.message.includes('never fires') ? [] : 'refused'
  }
  const count = (entry.next ?? entry.recommended ?? []).length
  return nextTimes(compiled(spec), entry.from ?? '2026-01-01T00:00:00Z', Math.max(count, 1))
}

/** H draws from the seed: the same for the same seed, as often as it should, in its range. */
function hashedTimes(entry: Case, property: Property): unknown {
  const spec = specOf(entry)
  if (spec === null) throw new Error('no spec')
  const fromMs = instant(entry.from ?? '2026-01-01T00:00:00Z')
  const times = compiled(spec).between(fromMs, fromMs + 40 * DAY_MS, 200)
  const again = compiled(spec).between(fromMs, fromMs + 40 * DAY_MS, 200)
  const stepsMs = times.slice(1).map((time, i) => time - (times[i] ?? 0))
  const hours = new Set(times.map((time) => new Date(time).getUTCHours()))
  const published = entry.answers?.[0]?.next ?? []
  return {
    enough: times.length > 30,
    stable: JSON.stringify(times) === JSON.stringify(again),
    stepsMs: stepMsOf(property) === null ? null : [...new Set(stepsMs)],
    hoursOutside: property.hourIn ? [...hours].filter((hour) => !property.hourIn?.includes(hour)) : [],
    first: times.slice(0, published.length).map(iso),
  }
}

function wantedHash(entry: Case, property: Property): unknown {
  const stepMs = stepMsOf(property)
  return {
    enough: true,
    stable: true,
    stepsMs: stepMs === null ? null : [stepMs],
    hoursOutside: [],
    first: entry.answers?.[0]?.next ?? [],
  }
}

function stepMsOf(property: Property): number | null {
  if (property.everyMinutes !== undefined) return property.everyMinutes * 60_000
  return property.oncePer === undefined ? null : { hour: HOUR_MS, day: DAY_MS }[property.oncePer]
}
