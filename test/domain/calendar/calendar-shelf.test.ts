// The shelf of calendars: each definition is read once and compiled once for a zone, however many schedules
// use it; what was changed is read again; what is gone, or too much to keep, is told or read again.

import { describe, expect, test } from 'vitest'
import type { CalendarRef } from '../../../packages/server/src/domain/calendar/calendar-lookup.ts'
import { compileStored } from '../../../packages/server/src/domain/stored-schedule.ts'
import { createCalendarShelf } from '../../../packages/server/src/engine/calendar-shelf.ts'
import type { ReadDefinitions, StoredDefinition } from '../../../packages/server/src/ports/calendars.ts'
import { instant, zone, zones } from '../schedule/schedule-fixtures.ts'

const ref = (id: string, digest = '1'): CalendarRef => ({ id, name: `calendar-${id}`, use: 'skip', digest })

function table(rows: Record<string, { digest: string; definition: StoredDefinition }>) {
  const asked: string[][] = []
  const read: ReadDefinitions = async (ids) => {
    asked.push([...ids])
    return ids.flatMap((id) => (rows[id] === undefined ? [] : [{ id, ...rows[id] }]))
  }
  return { asked, read, rows }
}

const weekend = { weekdays: ['sat', 'sun'] }

describe('a definition', () => {
  test('is read once and compiled once for each zone, for twenty thousand schedules', async () => {
    const shelf = createCalendarShelf()
    const { asked, read } = table({
      a: { digest: '1', definition: weekend },
      b: { digest: '1', definition: { ...weekend, zone: 'Asia/Tokyo' } },
    })
    const seen = { berlin: new Set<unknown>(), utc: new Set<unknown>(), own: new Set<unknown>() }
    for (let i = 0; i < 20_000; i++) {
      const useOf = await shelf.take([ref('a'), ref('b')], read)
      const compiled = (id: string, zoneName: string) => {
        const result = useOf(ref(id)).compiled(zone(zoneName), zones)
        return result.ok ? result.value : undefined
      }
      seen.berlin.add(compiled('a', 'Europe/Berlin'))
      seen.utc.add(compiled('a', 'UTC'))
      seen.own.add(compiled('b', i % 2 === 0 ? 'UTC' : 'Europe/Berlin'))
    }
    expect(asked).toEqual([['a', 'b']])
    expect([seen.berlin.size, seen.utc.size, seen.own.size]).toEqual([1, 1, 1])
    expect([...seen.berlin][0]).not.toBe([...seen.utc][0])
  })

  const ics = (count: number, start: (i: number) => string): StoredDefinition => ({
    ics: [
      'BEGIN:VCALENDAR',
      ...Array.from({ length: count }, (_, i) =>
        ['BEGIN:VEVENT', start(i), 'DURATION:PT1M', 'RRULE:FREQ=DAILY', 'END:VEVENT'].join('\n'),
      ),
      'END:VCALENDAR',
    ].join('\n'),
  })
  const someZones = zones.names().slice(0, 64)

  test('is laid out once for all zones where it says the same in all of them', async () => {
    const shelf = createCalendarShelf()
    const definition = ics(10, (i) => `DTSTART:20200101T0${i}0000`)
    const { read } = table({ a: { digest: '1', definition } })
    const useOf = await shelf.take([ref('a')], read)
    const inZone = (name: string) => useOf(ref('a')).compiled(zone(name), zones)
    inZone(someZones[0] ?? '')
    const bytes = shelf.bytes()
    for (const name of someZones) {
      const compiled = inZone(name)
      const at = (time: number): string | null | false =>
        compiled.ok && compiled.value.covers(zone(name).resolveLocal(time).instantMs)
      expect([at(Date.UTC(2026, 6, 5, 9)), at(Date.UTC(2026, 6, 5, 12))]).toEqual(['without a summary', null])
    }
    expect(bytes).toBeLessThan(200_000)
    expect(shelf.bytes() - bytes).toBeLessThan(64 * 2_000)
  })

  test('that differs from zone to zone is charged for each; the least lately used go', async () => {
    const shelf = createCalendarShelf()
    const definition = ics(10, (i) => `DTSTART:20200101T0${i}0000Z`)
    const ids = Array.from({ length: 20 }, (_, i) => String(i))
    const { read } = table(Object.fromEntries(ids.map((id) => [id, { digest: '1', definition }])))
    const useOf = await shelf.take(
      ids.map((id) => ref(id)),
      read,
    )
    const inZone = (id: string, name: string) => useOf(ref(id)).compiled(zone(name), zones)
    const first = inZone('0', 'UTC')
    expect(inZone('0', 'UTC')).toBe(first)
    expect(shelf.bytes()).toBeGreaterThan(100_000)
    for (const id of ids) for (const name of someZones) inZone(id, name)
    expect(shelf.bytes()).toBeLessThanOrEqual(64 * 1024 * 1024)
    expect(inZone('0', 'UTC')).not.toBe(first)
  })

  test('asks nothing where there are no calendars', async () => {
    const { asked, read } = table({})
    await createCalendarShelf().take([], read)
    expect(asked).toEqual([])
  })

  test('that was changed is read again, and the new one is taken by those who name the old one', async () => {
    const shelf = createCalendarShelf()
    const { asked, read, rows } = table({ a: { digest: '1', definition: weekend } })
    const covers = async (digest: string) => {
      const result = (await shelf.take([ref('a', digest)], read))(ref('a', digest)).compiled(
        zone('UTC'),
        zones,
      )
      return result.ok ? result.value.covers(instant('2026-12-05T12:00:00Z')) : result.error
    }
    expect(await covers('1')).toBe('Saturday')
    rows['a'] = { digest: '2', definition: { weekdays: ['mon'] } }
    expect(await covers('2')).toBe(null)
    expect(await covers('1')).toBe(null)
    expect(asked).toEqual([['a'], ['a'], ['a']])
    expect(await covers('2')).toBe(null)
    expect(asked).toHaveLength(3)
  })

  test('that is too large to keep beside others pushes them out; what was taken stays good', async () => {
    const shelf = createCalendarShelf()
    const large = { ...weekend, description: 'x'.repeat(40 * 1024 * 1024) }
    const { asked, read } = table({
      a: { digest: '1', definition: weekend },
      b: { digest: '1', definition: large },
      c: { digest: '1', definition: large },
    })
    const useOf = await shelf.take([ref('a')], read)
    await shelf.take([ref('b')], read)
    await shelf.take([ref('c')], read)
    await shelf.take([ref('a')], read)
    expect(asked).toEqual([['a'], ['b'], ['c'], ['a']])
    expect(useOf(ref('a')).compiled(zone('UTC'), zones).ok).toBe(true)
  })
})

describe('a schedule', () => {
  const stored = {
    scheduleId: 's',
    spec: { cron: '0 9 * * *', dialect: 'unix' },
    zone: 'UTC',
    startAtMs: null,
    endAtMs: null,
  }

  test('is compiled with its calendars', async () => {
    const { read } = table({ a: { digest: '1', definition: weekend } })
    const useOf = await createCalendarShelf().take([ref('a')], read)
    const compiled = compileStored({ ...stored, calendars: [useOf(ref('a'))], onExcluded: 'skip' }, zones)
    const excluded = compiled.ok && compiled.value.exclusionOf?.(instant('2026-12-05T09:00:00Z'))
    expect(excluded).toMatchObject({ calendar: 'calendar-a', by: 'skipOn' })
  })

  test.each<[string, StoredDefinition | undefined]>([
    ['the calendar calendar-a is not there any more', undefined],
    ['the calendar calendar-a cannot be read: /dates/0: "x" is not a date', { dates: ['x'] }],
    ['the calendar calendar-a cannot be read: /mystery: there is no such field', { mystery: 1 }],
  ])('cannot be, and says why: %s', async (words, definition) => {
    const { read } = table(definition === undefined ? {} : { a: { digest: '1', definition } })
    const useOf = await createCalendarShelf().take([ref('a')], read)
    const compiled = compileStored({ ...stored, calendars: [useOf(ref('a'))] }, zones)
    expect(compiled.ok ? '' : compiled.error).toContain(words)
  })
})
