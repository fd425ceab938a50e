// What is refused, where the fault points, and that the words name the position and the fix.

import { describe, expect, test } from 'vitest'
import { cronSpec, faultsOf } from './schedule-fixtures.ts'

const refused: readonly (readonly [expression: string, pointer: string, words: readonly string[]])[] = [
  ['60 * * * *', '/cron/minute', ['column 1', '60 is outside 0-59']],
  ['0 24 * * *', '/cron/hour', ['column 3', '24 is outside 0-23']],
  ['0 0 32 * *', '/cron/dayOfMonth', ['column 5', '32 is outside 1-31']],
  ['0 0 1 13 *', '/cron/month', ['column 7', '13 is outside 1-12']],
  ['0 0 * * 8', '/cron/dayOfWeek', ['column 9', '8 is outside 0-7']],
  ['60 0 0 * * *', '/cron/second', ['column 1', '60 is outside 0-59']],
  ['0 0 * * MONDAY', '/cron/dayOfWeek', ['"MONDAY" is not a name here', 'did you mean MON?']],
  ['0 0 * JUX *', '/cron/month', ['did you mean JUN?']],
  ['0 0 * XYZ *', '/cron/month', ['write JAN, FEB']],
  ['1,,2 * * * *', '/cron/minute', ['column 3', 'extra comma']],
  ['  1,99 * * * *', '/cron/minute', ['"99" at column 5']],
  ['*/5/5 * * * *', '/cron/minute', ['more than one "/"']],
  ['*/60 * * * *', '/cron/minute', ['wider than the field', '1 to 59']],
  ['*/x * * * *', '/cron/minute', ['whole number']],
  ['1-2-3 * * * *', '/cron/minute', ['write numbers from 0 to 59']],
  ['0 0 ? * MON', '/cron/dayOfMonth', ['has no "?"', 'write *']],
  ['0 0 L-31 * *', '/cron/dayOfMonth', ['L-0 to L-30']],
  ['0 0 32W * *', '/cron/dayOfMonth', ['1W to 31W']],
  ['0 0 * * L', '/cron/dayOfWeek', ['FRIL for the last Friday']],
  ['0 0 * * 8L', '/cron/dayOfWeek', ['8 is outside 0-7']],
  ['0 0 * * FRI#', '/cron/dayOfWeek', ['#1 to #5']],
  ['0 0 * * #2', '/cron/dayOfWeek', ['second Friday']],
  ['0 0 30 2 *', '/cron/dayOfMonth', ['never fires']],
  ['0 0 31 4,6,9,11 *', '/cron/dayOfMonth', ['never fires']],
  ['0 0 31W 2 *', '/cron/dayOfMonth', ['never fires']],
  ['', '/cron', ['the expression is empty', '5 fields']],
  ['0 0 * *', '/cron', ['4 fields']],
  ['0 0 1 1 * 2026 9', '/cron', ['7 fields']],
  ['@reboot', '/cron', ['on demand']],
  ['@every 5m', '/cron', ['use a rate']],
  ['@constructor', '/cron', ['not a macro', '@daily']],
  ['TZ=Europe/Berlin 0 6 * * *', '/cron', ['field zone']],
  ['0 0 * * *\u0000', '/cron', ['U+0000', 'column 10']],
  ['0\u00a00 * * *', '/cron', ['U+00A0', 'column 2']],
  ['0\n0 * * *', '/cron', ['U+000A']],
  ['1,'.repeat(200), '/cron', ['400 characters', 'at most 256']],
]

describe('refused expressions', () => {
  test.each(refused)('%j at %s', (expression, pointer, words) => {
    const faults = faultsOf(cronSpec(expression))
    expect(faults.map((fault) => fault.pointer)).toEqual([pointer])
    for (const word of words) expect(faults[0]?.message).toContain(word)
  })

  test('every bad field is reported at once, each with its own column', () => {
    const faults = faultsOf(cronSpec('61 25 0 13 9'))
    expect(faults.map((fault) => fault.pointer)).toEqual([
      '/cron/minute',
      '/cron/hour',
      '/cron/dayOfMonth',
      '/cron/month',
      '/cron/dayOfWeek',
    ])
    expect(faults.map((fault) => /column (\d+)/.exec(fault.message)?.[1])).toEqual(['1', '4', '7', '9', '12'])
  })

  test('an unknown zone points at the zone and suggests one', () => {
    const [fault] = faultsOf(cronSpec('0 0 * * *', 'Europe/Berln'))
    expect(fault?.pointer).toBe('/zone')
    expect(fault?.message).toContain('did you mean Europe/Berlin?')
  })
})
