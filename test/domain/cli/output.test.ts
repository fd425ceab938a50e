// What stands on a terminal: harmless whatever others wrote, aligned, within its width; times and durations
// in words; formats for programs that read back as what was printed.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toJson, toJsonLine, toYaml } from '../../../packages/cli/src/output/structured.ts'
import { renderTable } from '../../../packages/cli/src/output/table.ts'
import { cellWidth, cut, pad, plain, plainLines, wrap } from '../../../packages/cli/src/output/text.ts'
import {
  durationWords,
  relativeWords,
  timeWithDistance,
  timeWords,
} from '../../../packages/cli/src/output/times.ts'

const anyText = fc.string({ unit: 'binary', maxLength: 40 })
const dangerous = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\ufeff]/u
const noPaint = (text: string): string => text

describe('text that others wrote', () => {
  it('loses everything that a terminal would act on (case log.ansi_cli)', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(plain(text)).not.toMatch(dangerous)
      }),
    )
    expect(plain('a\u001b[31mred\u0007\r\n\u202eevil\u009b2J')).toBe(
      'a\\e[31mred\\u{7}\\r\\n\\u{202e}evil\\u{9b}2J',
    )
  })

  it('keeps its lines where lines are meant', () => {
    expect(plainLines('a\r\nb\tc\u001b[2J\rd')).toBe('a\nb\tc\\e[2J\\rd')
  })

  it('leaves ordinary words of every script alone', () => {
    for (const text of ['Zürich 夜 emoji 🎉', 'عربى', 'naïve — “quoted”']) expect(plain(text)).toBe(text)
  })
})

describe('width', () => {
  it('counts cells, not code units', () => {
    expect(cellWidth('abc')).toBe(3)
    expect(cellWidth('夜間')).toBe(4)
    expect(cellWidth('é')).toBe(1)
    expect(cellWidth('e\u0301')).toBe(1)
    expect(cellWidth('👩‍👩‍👧')).toBe(2)
  })

  it('cuts and pads to exactly what was asked', () => {
    fc.assert(
      fc.property(anyText.map(plain), fc.integer({ min: 1, max: 30 }), (text, cells) => {
        expect(cellWidth(cut(text, cells))).toBeLessThanOrEqual(Math.max(cells, 0))
        expect(cellWidth(pad(cut(text, cells), cells))).toBe(cells)
      }),
    )
  })

  it('wraps without losing a word', () => {
    expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 }).filter((word) => !word.includes(' '))), (list) => {
        expect(wrap(list.join(' '), 10).join(' ')).toBe(list.join(' '))
      }),
    )
  })
})

describe('tables', () => {
  const columns = [
    { title: 'NAME', flexible: true },
    { title: 'COUNT', align: 'right' as const },
    { title: 'STATE' },
  ]
  const rows = [
    [{ text: 'a-rather-long-name-for-a-job' }, { text: '3' }, { text: 'active' }],
    [{ text: '夜' }, { text: '12' }, { text: '' }],
  ]

  it('aligns columns', () => {
    expect(renderTable(columns, rows, { columns: undefined, paint: noPaint })).toEqual([
      'NAME                          COUNT  STATE',
      'a-rather-long-name-for-a-job      3  active',
      '夜                               12  -',
    ])
  })

  it('fits a narrow terminal by cutting what may be cut', () => {
    const lines = renderTable(columns, rows, { columns: 30, paint: noPaint })
    expect(lines[1]).toBe('a-rather-long-…      3  active')
    for (const line of lines) expect(cellWidth(line)).toBeLessThanOrEqual(30)
  })

  it('has one line a row, whatever is in the cells', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyText, anyText)), (list) => {
        const cells = list.map((row) => row.map((text) => ({ text })))
        const lines = renderTable([{ title: 'A' }, { title: 'B' }], cells, {
          columns: undefined,
          paint: noPaint,
        })
        expect(lines).toHaveLength(list.length + 1)
        for (const line of lines) expect(line).not.toMatch(dangerous)
      }),
    )
  })
})

describe('times', () => {
  const clock = { now: () => Date.parse('2026-11-29T22:10:00Z'), zone: 'Europe/Berlin', utc: false }

  it.each([
    [0, '0 ms'],
    [120, '120 ms'],
    [4_200, '4.2 s'],
    [5_000, '5s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h'],
    [5_400_000, '1h 30m'],
    [90_061_000, '1d 1h'],
    [-1_500, '-1.5 s'],
  ])('%i ms is %s', (ms, text) => {
    expect(durationWords(ms)).toBe(text)
  })

  it('tells the distance from now', () => {
    expect(relativeWords(300_000)).toBe('in 5m')
    expect(relativeWords(-7_260_000)).toBe('2h 1m ago')
    expect(relativeWords(400)).toBe('now')
  })

  it('shows local time, or UTC when asked', () => {
    expect(timeWords('2026-11-29T22:10:05Z', clock)).toBe('2026-11-29 23:10:05')
    expect(timeWithDistance('2026-11-29T22:15:00.000Z', clock)).toBe('2026-11-29 23:15:00 (in 5m)')
    expect(timeWords('2026-11-29T22:10:05.123Z', { ...clock, utc: true })).toBe('2026-11-29T22:10:05Z')
  })

  it('survives a zone that this machine does not know, and what is no time', () => {
    expect(timeWords('2026-11-29T22:10:05Z', { ...clock, zone: 'No/Such' })).toBe('2026-11-29 22:10:05')
    expect(timeWords('soon', clock)).toBe('soon')
  })
})

describe('formats for programs', () => {
  const risky = /[\u007f-\u009f\p{Bidi_Control}\p{Zl}\p{Zp}]/u
  const anyJson = fc.jsonValue({ stringUnit: 'binary', noUnicodeString: false } as object)

  it('reads back as what was printed, and holds nothing that a terminal would act on', () => {
    fc.assert(
      fc.property(anyJson, anyText, (value, text) => {
        const data = JSON.parse(JSON.stringify({ value, text, [text]: 1 })) as unknown
        for (const printed of [toJson(data), toJsonLine(data)]) {
          expect(JSON.parse(printed)).toEqual(data)
          expect(printed).not.toMatch(risky)
        }
        expect(toJsonLine(data)).not.toContain('\n')
      }),
    )
  })

  it('escapes in YAML too, in quotes, where escapes have a meaning', () => {
    const data = { 'a\u009b2J': 'b\u202e', list: ['x', '\u007f'] }
    const lines = ['"a\\u009b2J": "b\\u202e"', '"list":', '  - "x"', '  - "\\u007f"']
    expect(toYaml(data)).toBe(lines.join('\n'))
    expect(toYaml({ name: 'word' })).toBe('name: word')
    fc.assert(
      fc.property(anyText, anyText, (key, text) => {
        expect(toYaml({ [key]: text })).not.toMatch(risky)
      }),
    )
  })
})
