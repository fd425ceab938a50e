// Reading addresses and ranges: examples, and properties against what Node itself makes of the same text.
import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Address,
  isSingle,
  parseAddress,
  parseRange,
  rangeContains,
  unmapped,
} from '../../../packages/server/src/domain/egress/address.ts'
import { textOf } from '../../support/address-text.ts'

const bytes = (count: number) =>
  fc.array(fc.integer({ min: 0, max: 255 }), { minLength: count, maxLength: count })

/** The bits of byte number `at` that lie beyond the prefix. */
const hostBits = (prefixBits: number, at: number): number =>
  0xff >> Math.min(8, Math.max(0, prefixBits - at * 8))

function read(text: string): Address {
  const address = parseAddress(text)
  if (address === undefined) throw new Error(`${text} must parse`)
  return address
}

describe('parseAddress', () => {
  it('reads every IPv4 address', () => {
    fc.assert(
      fc.property(bytes(4), (octets) => {
        expect(parseAddress(textOf(octets))?.toByteArray()).toEqual(octets)
      }),
    )
  })

  it('reads every IPv6 address in all its spellings', () => {
    // Zeros are frequent, so that `::` stands in every place.
    const byte = fc.oneof(
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 2, arbitrary: fc.integer({ min: 0, max: 255 }) },
    )
    const sixteen = fc.array(byte, { minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(sixteen, (parts) => {
        const whole = textOf(parts)
        const dotted = `${whole.split(':').slice(0, 6).join(':')}:${parts.slice(12).join('.')}`
        // The URL parser writes the shortest form, without dots.
        const short = new URL(`http://[${whole}]/`).hostname
        const shortDotted = short.replace(/:[0-9a-f]+:[0-9a-f]+\]$/, `:${parts.slice(12).join('.')}]`)
        const spellings = [whole, dotted, short, shortDotted]
        for (const text of spellings) {
          expect([text, parseAddress(text)?.toByteArray()]).toEqual([text, parts])
        }
      }),
      { numRuns: 500 },
    )
  })

  it('agrees with Node on what is an address at all', () => {
    const piece = fc.constantFrom(
      '0',
      '1',
      '255',
      '256',
      '01',
      'f',
      'ffff',
      '10000',
      'g',
      '',
      '.',
      ':',
      '::',
      '%1',
      ' ',
    )
    const glue = fc.constantFrom('.', ':', '')
    const text = fc
      .array(fc.tuple(piece, glue), { maxLength: 9 })
      .map((parts) => parts.map(([left, right]) => left + right).join(''))
    const kinds: Readonly<Record<number, string>> = { 4: 'ipv4', 6: 'ipv6' }
    fc.assert(
      fc.property(text, (candidate) => {
        // Zone ids belong to interfaces of this machine, never to a target.
        const expected = candidate.includes('%') ? undefined : kinds[isIP(candidate)]
        expect([candidate, parseAddress(candidate)?.kind()]).toEqual([candidate, expected])
      }),
      { numRuns: 5_000 },
    )
  })

  it.each([
    '127.1',
    '0177.0.0.1',
    '0x7f.1',
    '2130706433',
    '1.2.3.4.',
    '1.2.3',
    '::1%lo',
    '1::2::3',
    ':1',
    '::1.2.3',
    '::ffff:010.0.0.1',
    '::ffff:0x7f.0.0.1',
    '::ffff:1.2.3.256',
    '1.2.3.4::',
    '1:2:3:4:5:6:7:1.2.3.4',
    'fe80::1%eth0',
    '::1.2.3.4%1',
    '',
  ])('refuses %j', (text) => {
    expect(parseAddress(text)).toBeUndefined()
  })

  it('takes the mapping off, and nothing else', () => {
    const compatible = read('::127.0.0.1')
    expect(unmapped(read('::ffff:127.0.0.1'))).toEqual(read('127.0.0.1'))
    expect(unmapped(compatible)).toBe(compatible)
    expect(compatible.toByteArray().slice(8)).toEqual([0, 0, 0, 0, 127, 0, 0, 1])
  })
})

describe('parseRange', () => {
  it.each([
    ['IPv4', 4, 'ipv4'],
    ['IPv6', 16, 'ipv6'],
  ] as const)('holds the same addresses as the block list of Node: %s', (_name, size, family) => {
    const flips = fc.option(fc.integer({ min: 0, max: size * 8 - 1 }))
    const prefix = fc.integer({ min: 0, max: size * 8 })
    fc.assert(
      fc.property(bytes(size), prefix, bytes(size), flips, (base, prefixBits, other, flipped) => {
        const first = base.map((byte, at) => byte & ~hostBits(prefixBits, at))
        // Neighbours, one bit away from the first address, besides addresses from anywhere.
        const near = (bit: number) =>
          first.map((byte, at) => (at === bit >> 3 ? byte ^ (0x80 >> (bit & 7)) : byte))
        const probe = flipped === null ? other : near(flipped)
        const list = new BlockList()
        list.addSubnet(textOf(first), prefixBits, family)
        const parsed = parseRange(`${textOf(first)}/${prefixBits}`)
        if (!parsed.ok) throw new Error(parsed.message)
        const held = rangeContains(parsed.range, unmapped(read(textOf(probe))))
        expect(held).toBe(list.check(textOf(probe), family))
      }),
      { numRuns: 1_000 },
    )
  })

  it('refuses exactly what is not written by its first address', () => {
    fc.assert(
      fc.property(bytes(4), fc.integer({ min: 0, max: 32 }), (base, prefixBits) => {
        const below = base.some((byte, at) => (byte & hostBits(prefixBits, at)) !== 0)
        expect(parseRange(`${textOf(base)}/${prefixBits}`).ok).toBe(!below)
      }),
    )
  })

  it('reads a bare address as a range of one, and a mapped range as IPv4', () => {
    const one = parseRange('10.0.0.1')
    const mapped = parseRange('::ffff:10.0.0.0/104')
    expect(one.ok && isSingle(one.range)).toBe(true)
    expect(mapped).toEqual(parseRange('10.0.0.0/8'))
  })

  it.each([
    ['10.1.2.3/8', 'beyond its prefix; write its first address, 10.0.0.0/8, or /32 for this one'],
    ['fd12::1/8', 'first address, fd00::/8, or /128'],
    ['fe80::1%1/128', 'not an address range'],
    ['[fd00::]/8', 'not an address range'],
    ['10.0.0.0/33', 'longer than 32'],
    ['fd00::/129', 'longer than 128'],
    ['10.0.0.0/', 'prefix length'],
    ['10.0.0.0/08', 'prefix length'],
    ['10.0.0.0/8/8', 'not an address range'],
    ['example.com', 'not an address range'],
    ['', 'not an address range'],
  ])('refuses %j and says why', (text, why) => {
    const parsed = parseRange(text)
    expect(parsed.ok ? 'taken' : parsed.message).toContain(why)
  })
})
