// The public case file: every case of a dialect that is built must give exactly its answer, and the others
// are left out with the reason printed. Disputed cases must give what is recommended.

import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { parseRate } from '../../../packages/server/src/domain/schedule/rate.ts'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, cronSpec, faultsOf, instant, nextTimes } from './schedule-fixtures.ts'

type Case = {
  readonly id: string
  readonly dialect: string
  readonly expr: string
  readonly tz?: string
  readonly from?: string
  readonly start?: string
  readonly next?: readonly string[]
  readonly recommended?: readonly string[]
  readonly invalid?: boolean
  readonly needs?: readonly string[]
}

const file = new URL('../../cases/cron.json', import.meta.url)
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly Case[] }
const skipped = new Map<string, string[]>()

/** Why a case is not for the dialects that exist, or null when it is. */
function outOfScope(entry: Case): string | null {
  if (entry.dialect === 'unix' || entry.dialect === 'rate') return null
  if (entry.dialect === 'k8s' || entry.dialect === 'github') {
    if (entry.invalid) return `what ${entry.dialect} refuses, its own table must refuse`
    return entry.needs?.includes('?') ? 'needs "?" of k8s' : null
  }
  return `dialect ${entry.dialect} is not built`
}

function specOf(entry: Case): ScheduleSpec | null {
  if (entry.dialect !== 'rate') return cronSpec(entry.expr, entry.tz)
  const period = parseRate(entry.expr)
  if (!period.ok) return null
  return { kind: 'rate', everyMs: period.value, anchorMs: instant(entry.start ?? '1970-01-01T00:00:00Z') }
}

describe('cases/cron.json', () => {
  for (const entry of cases) {
    const reason = outOfScope(entry)
    if (reason !== null) {
      skipped.set(reason, [...(skipped.get(reason) ?? []), entry.id])
      continue
    }
    test(`${entry.id} ${entry.dialect} ${entry.expr} ${entry.tz ?? ''}`, () => {
      expect(answerOf(entry)).toEqual(wantedOf(entry))
    })
  }

  test('most of the unix and rate cases are in scope', () => {
    expect(cases.filter((entry) => outOfScope(entry) === null).length).toBeGreaterThanOrEqual(150)
  })

  afterAll(() => {
    const lines = [...skipped].map(([reason, ids]) => `  ${ids.length} × ${reason}: ${ids.join(' ')}`)
    process.stdout.write(`cases/cron.json, left out:\n${lines.join('\n')}\n`)
  })
})

type Answer = 'refused' | 'never fires' | readonly string[]

/** A date that never comes is refused at creation, with these words. */
function wantedOf(entry: Case): Answer {
  if (entry.invalid) return 'refused'
  const times = entry.next ?? entry.recommended ?? []
  return times.length === 0 ? 'never fires' : times
}

function answerOf(entry: Case): Answer {
  const spec = specOf(entry)
  if (spec === null) return 'refused'
  const [fault] = faultsOf(spec)
  if (fault) return fault.message.includes('never fires') ? 'never fires' : 'refused'
  const count = (entry.next ?? entry.recommended ?? []).length
  return nextTimes(compiled(spec), entry.from ?? '2026-01-01T00:00:00Z', Math.max(count, 1))
}
