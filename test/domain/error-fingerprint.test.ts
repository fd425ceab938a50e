// What makes two errors one: the examples say which parts of the words count, the properties that nothing
// else does.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { errorFingerprint, errorPattern } from '../../packages/server/src/domain/error-fingerprint.ts'

describe('the pattern of an error', () => {
  const examples: readonly (readonly [message: string, pattern: string])[] = [
    ['order 42 was not found', 'order <n> was not found'],
    ['order 1.5, then -7 and 1,000,000', 'order <n>, then <n> and <n>'],
    ['The attempt took longer than 5000 ms', 'The attempt took longer than <n> ms'],
    ['no response within 30s', 'no response within <n>s'],
    ['user 7c9e6679-7425-40de-944b-e07fc1f90ae7 is gone', 'user <id> is gone'],
    ['commit 9fceb02d0ae598e95dc970b74767f19372d61af8', 'commit <id>'],
    ['at 0x7ffee3b4c8a0', 'at <id>'],
    ['customer cus_9s6XKzkNRiz8i3 has no card', 'customer <id> has no card'],
    ['no such host "db-1.example" here', 'no such host <value> here'],
    [`can't read 'a/b' of \`x\``, `can't read <value> of <value>`],
    ['mail to ada+x@example.com bounced', 'mail to <value> bounced'],
    ['due 2026-11-30T02:30:00.123Z, now 2026-11-30', 'due <time>, now <time>'],
    ['since 2026-11-30 02:30:00+01:00 it waits', 'since <time> it waits'],
    ['Date: Mon, 30 Nov 2026 02:30:00 GMT', 'Date: <time>'],
    ['connect 10.0.0.17:5432 refused', 'connect <n> refused'],
    ['utf8 and http2 are names', 'utf<n> and http<n> are names'],
    ['two\n  lines', 'two lines'],
    ['défaut à l’étape', 'défaut à l’étape'],
    ['', ''],
  ]
  test.each(examples)('%j', (message, pattern) => {
    expect(errorPattern(message)).toBe(pattern)
  })
})

/** Words that mean something, with places for what differs. */
const letters = fc.stringMatching(/^[a-z]{1,9}$/)
const template = fc.array(
  fc.oneof(
    letters.map((word) => [word]),
    fc.constant(null),
  ),
  {
    minLength: 1,
    maxLength: 12,
  },
)
const fill = (parts: readonly (readonly string[] | null)[], values: readonly string[]): string =>
  parts.map((part, index) => part?.[0] ?? values[index % values.length] ?? '').join(' ')
const twelve = (one: fc.Arbitrary<string>) => fc.array(one, { minLength: 12, maxLength: 12 })
const hex = (min: number, max: number) =>
  fc.stringMatching(new RegExp(`^[0-9a-f]{${min},${max}}$`)).filter((text) => /\d/.test(text))

const kinds: Readonly<Record<string, fc.Arbitrary<string>>> = {
  numbers: fc.integer({ min: -1_000_000, max: 1_000_000_000 }).map(String),
  decimals: fc.tuple(fc.nat(), fc.nat()).map(([whole, part]) => `${whole}.${part}`),
  uuids: fc.uuid(),
  hex: hex(10, 40).filter((text) => !/^\d+$/.test(text)),
  times: fc
    .date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true })
    .map((date) => date.toISOString()),
  'quoted values': fc.stringMatching(/^[ -!#-~]{0,40}$/).map((text) => `"${text}"`),
}

describe('the fingerprint', () => {
  test.each(Object.entries(kinds))('is the same whatever the %s', (_kind, value) => {
    fc.assert(
      fc.property(template, twelve(value), twelve(value), (parts, one, other) => {
        expect(errorFingerprint('code', fill(parts, one))).toBe(errorFingerprint('code', fill(parts, other)))
      }),
    )
  })

  test('differs with the words, and with the code', () => {
    fc.assert(
      fc.property(fc.uniqueArray(letters, { minLength: 2, maxLength: 2 }), ([one = '', other = '']) => {
        const message = `cannot ${one} order 1`
        expect(errorFingerprint('a', message)).not.toBe(errorFingerprint('a', `cannot ${other} order 1`))
        expect(errorFingerprint(one, message)).not.toBe(errorFingerprint(other, message))
      }),
    )
  })

  test('of a pattern is that of the message, and both are texts of a bounded form', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (message) => {
        const pattern = errorPattern(message)
        expect(errorPattern(pattern)).toBe(pattern)
        expect(errorFingerprint('x', pattern)).toBe(errorFingerprint('x', message))
        expect(errorFingerprint('x', message)).toMatch(/^[0-9a-f]{16}$/)
        expect(pattern.length).toBeLessThanOrEqual(4 * message.length)
      }),
      { numRuns: 2_000 },
    )
  })

  test('takes no longer than the text, also for a hostile one', () => {
    const hostile = ['"', "'", '1-', '2026-11-', 'a@', '0x', '1 Jan ', '1.', 'deadbeef-', '`', ' ']
    const started = performance.now()
    for (const piece of hostile) errorPattern(piece.repeat(Math.ceil(4_000 / piece.length)))
    expect(performance.now() - started).toBeLessThan(1_000)
  })

  test('never changes: it is stored', () => {
    expect(errorFingerprint('http_500', 'the target answered 500 instead of 2xx')).toBe(
      errorFingerprint('http_500', 'the target answered 503 instead of 9xx'),
    )
    // what 0019_dead_letters.sql writes for runs that failed before
    expect(errorFingerprint('worker_lost', null)).toMatchInlineSnapshot(`"46ead56aa5c28e91"`)
  })
})
