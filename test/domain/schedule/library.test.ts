// The evaluator as users import it: what it answers, and that nothing of the server comes along with it.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import * as front from '../../../packages/cli/src/schedule.ts'
import * as evaluator from '../../../packages/server/src/schedule.ts'
import {
  compile,
  compileCalendar,
  openZoneSource,
  type Schedule,
} from '../../../packages/server/src/schedule.ts'
import { importsOf } from '../../tidy/lib/syntax.ts'
import { sourceFile } from '../../tidy/lib/source-file.ts'
import { instant, iso } from './schedule-fixtures.ts'

const zones = openZoneSource({ directories: [] })
const root = fileURLToPath(new URL('../../../', import.meta.url))

function schedule(expression: string, zone: string): Schedule {
  const result = compile({ kind: 'cron', dialect: 'unix', expression, zone }, { zones })
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}

const nightly = schedule('30 2 * * *', 'Europe/Berlin')
const march = instant('2026-03-28T12:00:00Z')

describe('a compiled schedule', () => {
  test('goes forward, back, between, and counts', () => {
    expect(nightly.next(march)).toBe(instant('2026-03-29T01:00:00Z'))
    expect(nightly.previous(march)).toBe(instant('2026-03-28T01:30:00Z'))
    const april = instant('2026-04-01T00:30:00Z')
    expect(nightly.between(march, april, 10).map(iso)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-30T00:30:00Z',
      '2026-03-31T00:30:00Z',
      '2026-04-01T00:30:00Z',
    ])
    expect(nightly.countBetween(march, april)).toEqual({ count: 4, capped: false })
  })

  test('describes itself, warns, and tells what the clock did', () => {
    expect(nightly.describe()).toBe('At 02:30 every day (Europe/Berlin)')
    expect(nightly.warnings(march).map(({ code }) => code)).toEqual(['dst_gap', 'dst_overlap'])
    expect(nightly.dstNote(instant('2026-03-29T01:00:00Z'))).toContain('stands for 02:30')
    expect(nightly.dstNote(instant('2026-03-30T00:30:00Z'))).toBe(null)
    expect(nightly.dstNote(instant('2026-10-25T00:30:00Z'))).toContain('the first 02:30 of two')
    // Where the rule of the zone repeats after 400 years.
    const far = nightly.between(instant('2599-03-20T00:00:00Z'), instant('2599-04-05T00:00:00Z'), 20)
    const notes = far.map((timeMs) => nightly.dstNote(timeMs)).filter((note) => note !== null)
    expect(notes).toEqual(['stands for 02:30: the clock leaps from 02:00 to 03:00'])
    expect(schedule('30 0 * * *', 'UTC').dstNote(march)).toBe(null)
  })

  test('is described from the anchor that its start gives, and once from its text', () => {
    const every = { kind: 'calendar', every: 'every 2 weeks on fri at 09:00' } as const
    const counted = compile(every, { zones, startAtMs: instant('2026-01-02T00:00:00Z') })
    expect(counted.ok && counted.value.describe()).toBe(
      'At 09:00 every 2 weeks on Friday, counted from 2026-01-02 (UTC)',
    )
    const once = compile({ kind: 'at', at: '2026-03-29T02:30:00', zone: 'Europe/Berlin' }, { zones })
    expect(once.ok && once.value.describe()).toBe('Once, at 2026-03-29 02:30:00 (Europe/Berlin)')
    expect(once.ok && once.value.dstNote(instant('2026-03-29T01:00:00Z'))).toContain('does not exist')
    expect(once.ok && once.value.warnings(march).map(({ code }) => code)).toEqual(['wall_time'])
  })

  test('leaves out what a calendar covers', () => {
    const weekend = compileCalendar({ weekdays: ['sat', 'sun'] }, { zoneName: 'Europe/Berlin', zones })
    if (!weekend.ok) throw new Error('refused')
    const kept = nightly.nextOutside({ skipOn: [weekend.value] }, march, 1)
    expect(kept.times.map(iso)).toEqual(['2026-03-30T00:30:00Z'])
    expect(kept.excluded).toEqual([
      {
        timeMs: instant('2026-03-29T01:00:00Z'),
        calendar: 'calendar',
        reason: 'the calendar calendar excludes it: Sunday',
      },
    ])
    expect(nightly.previousOutside({ onlyOn: [weekend.value] }, march, 2).times.map(iso)).toEqual([
      '2026-03-28T01:30:00Z',
      '2026-03-22T01:30:00Z',
    ])
  })
})

describe('a refusal is a value', () => {
  test('of a schedule', () => {
    const cron = { kind: 'cron', dialect: 'unix', expression: '0 0 30 2 *' } as const
    const never = compile(cron, { zones })
    expect(never.ok ? [] : never.error.map(evaluator.isNeverFires)).toEqual([true])
    expect(compile({ ...cron, zone: 'Mars/Olympus' }, { zones })).toMatchObject({
      ok: false,
      error: [{ pointer: '/zone' }],
    })
  })

  test.each<[unknown, string[]]>([
    [null, ['']],
    [[], ['']],
    [{ name: 5 }, ['/name']],
    [{ name: '' }, ['/name']],
    [{ 'a/b': 1 }, ['/a~1b']],
    [{ dates: '2026-12-25' }, ['/dates']],
    [{ dates: [20261225] }, ['/dates/0']],
    [{ ranges: ['2026'] }, ['/ranges/0', '/ranges/0/from', '/ranges/0/to']],
    [{ windows: [{ cron: '0 0 * * *', dialect: 'cronie' }] }, ['/windows/0/dialect', '/windows/0/minutes']],
    [{ windows: [{ cron: '61 0 * * *', minutes: 5 }] }, ['/windows/0/cron/minute']],
    [{}, ['']],
    [{ dates: null, zone: 'Mars/Olympus' }, ['/zone']],
  ])('of the calendar %j', (value, pointers) => {
    const result = compileCalendar(value, { zones })
    expect(result.ok ? [] : result.error.map(({ pointer }) => pointer)).toEqual(pointers)
  })

  test('of a calendar whose schedule has no such zone', () => {
    expect(compileCalendar({ dates: ['2026-12-25'] }, { zones, zoneName: 'Mars/Olympus' }).ok).toBe(false)
  })
})

describe('the library', () => {
  test('is the same from the front package', () => {
    expect(Object.keys(front).toSorted()).toEqual(Object.keys(evaluator).toSorted())
    expect(new Map(Object.entries(front)).get('compile')).toBe(compile)
  })

  test('brings nothing along but the contract and parts of Node', () => {
    const seen = new Set<string>()
    const packages = new Set<string>()
    const visit = (path: string): void => {
      if (seen.has(path)) return
      seen.add(path)
      for (const { kind, specifier } of importsOf(sourceFile(path, readFileSync(join(root, path), 'utf8')))) {
        if (kind !== 'type' && !specifier.startsWith('.')) packages.add(specifier)
        if (kind !== 'type' && specifier.startsWith('.')) visit(join(dirname(path), specifier))
      }
    }
    visit('packages/server/src/schedule.ts')
    expect(seen.size).toBeGreaterThan(20)
    expect([...packages].filter((name) => !name.startsWith('node:'))).toEqual(['@belfry/contract'])
    expect([...packages].filter((name) => /http|net|dgram|child_process/.test(name))).toEqual([])
  })
})
