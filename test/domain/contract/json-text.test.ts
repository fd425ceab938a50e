// The strict reader of JSON bodies against JSON.parse: it takes nothing that JSON.parse refuses, and what it
// takes means the same.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readJsonText } from '../../../packages/server/src/http/json-text.ts'

const faultOf = (text: string) => {
  const read = readJsonText(text)
  return 'fault' in read ? read.fault : undefined
}

describe('reading JSON', () => {
  it('agrees with JSON.parse on every value', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), fc.nat(4), (text, indent) => {
        // what it refuses on purpose has tests of its own
        fc.pre(!text.includes('__proto__') && !/\d{16}/.test(text))
        const value: unknown = JSON.parse(text)
        expect(readJsonText(JSON.stringify(value, null, indent))).toEqual({ value })
      }),
    )
  })

  it('judges what programs write, without a space too much, like any other text', () => {
    const key = fc.oneof(fc.constantFrom('a', '1', '__proto__', '\ud800'), fc.string())
    const scalar = fc.oneof(
      fc.constantFrom(2 ** 53, -0, 1e21, '9007199254740993', '1e999', '}{'),
      fc.jsonValue(),
    )
    const value = fc.oneof(scalar, fc.dictionary(key, scalar), fc.array(scalar))
    const twice = fc.tuple(key, value, value).map(([k, a, b]) => [k, a, k, b] as const)
    const member = (k: string, v: unknown) => `${JSON.stringify(k)}:${JSON.stringify(v)}`
    const deep = fc.integer({ min: 60, max: 70 }).map((n) => '['.repeat(n) + ']'.repeat(n))
    const text = fc.oneof(
      value.map((v) => JSON.stringify(v)),
      value.map((v) => JSON.stringify(v).replace(/"(-?[\de]+)"/, '$1')),
      twice.map(([k, a, l, b]) => `{${member(k, a)},${member(l, b)}}`),
      deep,
    )
    fc.assert(
      fc.property(text, (written) => {
        // all but the words, which may name a column
        const judged = (whole: string) => {
          const read = readJsonText(whole)
          return 'value' in read ? read : { code: read.fault.code, pointer: read.fault.pointer }
        }
        expect(judged(written)).toEqual(judged(` ${written}`))
      }),
      { numRuns: 2_000 },
    )
  })

  it('never takes what JSON.parse refuses, and never throws', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '\\',
      '1',
      '-',
      '0',
      '.5',
      'e9',
      'true',
      'nul',
      ' ',
      '\n',
      '\u0001',
      '"\\u12"',
      '"\\x"',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = parts.join('')
        let parsed: { value: unknown } | undefined
        try {
          parsed = { value: JSON.parse(text) }
        } catch {
          parsed = undefined
        }
        const read = readJsonText(text)
        // whichever comes first: what is malformed, or a number that is too large
        const allowed = [parsed ?? 'malformed_json', 'invalid_request']
        expect(allowed).toContainEqual('fault' in read ? read.fault.code : read)
      }),
      { numRuns: 5_000 },
    )
  })

  it('names line and column, and what was expected', () => {
    expect(faultOf('{\n  "a": 1\n  "b": 2\n}')?.message).toBe(
      'at line 3, column 3 there is "\\"" where a comma or the end of the list or object was expected',
    )
    expect(faultOf('{"a" 1}')?.message).toContain('column 6 there is "1" where a colon after the key')
    expect(faultOf('[1,]')?.message).toContain('column 4 there is "]" where a value')
    expect(faultOf('{"a": tru}')?.message).toContain('column 7')
    expect(faultOf('')?.message).toContain('the text ends')
    expect(faultOf('1 2')?.message).toContain('something follows')
  })

  it('points at what JSON.parse lets pass', () => {
    expect(faultOf('{"a":{"b~/c":[0,{"x":1,"x":2}]}}')).toMatchObject({
      code: 'invalid_request',
      pointer: '/a/b~0~1c/1/x',
    })
    expect(faultOf('[[1],{"__proto__":1}]')?.pointer).toBe('/1/__proto__')
    expect(faultOf('{"\\u005f_proto__":1}')?.pointer).toBe('/__proto__')
    expect(faultOf('{"n":[1,-9007199254740993]}')?.pointer).toBe('/n/1')
    expect(faultOf('{"n":1e999}')?.message).toMatch(/within the limits of the field/)
    expect(faultOf('{"input":[9007199254740993]}')?.message).toMatch(/send it as a string/)
    expect(faultOf('[9007199254740991, 1.7976931348623157e308, -0]')).toBeUndefined()
    expect(faultOf('{"t":"\\udc00"}')?.pointer).toBe('/t')
    expect(faultOf('{"t":"\\ud83d\\ude00"}')).toBeUndefined()
  })

  it('bounds the nesting, and reads large texts', () => {
    expect(faultOf('['.repeat(64) + ']'.repeat(64))).toBeUndefined()
    expect(faultOf('['.repeat(65) + ']'.repeat(65))?.message).toContain('64 levels')
    expect(faultOf('['.repeat(1_000_000))?.message).toContain('64 levels')
    const large = JSON.stringify({
      text: 'x"\\\u00e9'.repeat(200_000),
      list: Array.from({ length: 100_000 }, (_, n) => n),
    })
    expect(faultOf(large)).toBeUndefined()
  })
})
