// Values as people type them: durations, instants, headers, JSON, the target of --http.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { httpTarget } from '../../../packages/cli/src/commands/handler-flags.ts'
import { UsageError } from '../../../packages/cli/src/exit-codes.ts'
import { durationMs, headers, instant, json, pastInstant, whole } from '../../../packages/cli/src/values.ts'

const now = Date.parse('2026-11-29T12:00:00Z')

function durationOrRefusal(text: string): number | 'refused' {
  try {
    return durationMs(text, '--x')
  } catch (error) {
    if (error instanceof UsageError) return 'refused'
    throw error
  }
}

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['1.5h', 5_400_000],
    ['1d', 86_400_000],
    ['0', 0],
  ])('%s', (text, ms) => {
    expect(durationMs(text, '--timeout')).toBe(ms)
  })

  it.each(['', '5', '5 m', 'm', '-5m', '5y', '1m 30s', '1e3s', `${'9'.repeat(30)}d`])(
    'refuses %j',
    (text) => {
      expect(() => durationMs(text, '--timeout')).toThrow(/--timeout.*write a number with a unit/)
    },
  )

  it('adds up whatever parts are given', () => {
    const parts = fc.array(fc.tuple(fc.nat(1000), fc.constantFrom('ms', 's', 'm', 'h', 'd')), {
      minLength: 1,
      maxLength: 5,
    })
    const unit = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 }
    fc.assert(
      fc.property(parts, (list) => {
        const text = list.map(([count, name]) => `${count}${name}`).join('')
        const sum = list.reduce((total, [count, name]) => total + count * unit[name], 0)
        expect(durationMs(text, '--x')).toBe(sum)
      }),
    )
  })

  it('answers a number or a usage error, whatever is typed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(durationOrRefusal(text)).toSatisfy(
          (value) => value === 'refused' || Number.isSafeInteger(value),
        )
      }),
    )
  })
})

describe('instants', () => {
  it('takes RFC 3339 as it is and counts from now', () => {
    expect(instant('2026-12-01T02:30:00+01:00', '--at', now)).toBe('2026-12-01T02:30:00+01:00')
    expect(instant('+10m', '--at', now)).toBe('2026-11-29T12:10:00.000Z')
    expect(instant('now', '--at', now)).toBe('2026-11-29T12:00:00.000Z')
    expect(pastInstant('1h', '--since', now)).toBe('2026-11-29T11:00:00.000Z')
    expect(pastInstant('2026-11-01T00:00:00Z', '--since', now)).toBe('2026-11-01T00:00:00Z')
  })

  it.each(['tomorrow', '2026-12-01', '2026-12-01T02:30:00', '10m'])(
    'refuses %s, naming the offset',
    (text) => {
      expect(() => instant(text, '--start', now)).toThrow(/--start.*offset/)
    },
  )

  it('refuses what no calendar holds', () => {
    expect(() => instant('+99999999999d', '--at', now)).toThrow(/too far away|not a duration/)
  })
})

describe('headers', () => {
  it('splits at the first colon', () => {
    expect(headers(['X-Team: billing', 'X-Url: http://a:1'], '--header')).toEqual({
      'X-Team': 'billing',
      'X-Url': 'http://a:1',
    })
  })

  it('keeps a name that objects treat specially', () => {
    expect(Object.entries(headers(['__proto__: x'], '--header'))).toEqual([['__proto__', 'x']])
  })

  it('refuses a line without a name and a name given twice', () => {
    expect(() => headers(['nothing'], '--header')).toThrow(/write it like/)
    expect(() => headers([': x'], '--header')).toThrow(/write it like/)
    expect(() => headers(['A: 1', 'a: 2'], '--header')).toThrow(/given twice/)
  })
})

describe('targets', () => {
  it('takes a method in any case, or POST', () => {
    expect(httpTarget('get https://a/b')).toEqual({ method: 'GET', url: 'https://a/b' })
    expect(httpTarget('https://a/b')).toEqual({ method: 'POST', url: 'https://a/b' })
  })

  it.each(['POST', 'GET https://a b', 'FETCH https://a b'])('refuses %j', (text) => {
    expect(() => httpTarget(text)).toThrow(/write --http POST/)
  })
})

describe('numbers and JSON', () => {
  it('holds the bounds', () => {
    expect(whole('3', '--limit', 1, 3)).toBe(3)
    for (const text of ['0', '4', '1.5', '', 'x', '1e0'])
      expect(() => whole(text, '--limit', 1, 3)).toThrow(/1 to 3/)
  })

  it('says where JSON went wrong and how to quote it', () => {
    expect(json('{"a":1}', '--input')).toEqual({ a: 1 })
    expect(() => json('{a:1}', '--input')).toThrow(/--input is not valid JSON.*quote it/)
  })
})
