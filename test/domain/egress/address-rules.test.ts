// Which addresses may be called: the special ranges with their borders, forms that hide an IPv4 address, and
// what the operator opens and closes.
import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAddress } from '../../../packages/server/src/domain/egress/address.ts'
import { judgeAddress } from '../../../packages/server/src/domain/egress/address-rules.ts'
import { type EgressRanges, parsePolicy } from '../../../packages/server/src/domain/egress/egress-policy.ts'
import { textOf } from '../../support/address-text.ts'

function policy(ranges: Partial<EgressRanges> = {}) {
  const parsed = parsePolicy({ allowCidrs: [], ...ranges })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults))
  return parsed.policy
}

const closed = policy()
const allowed = (address: string, ranges: Partial<EgressRanges> = {}): boolean =>
  judgeAddress(address, policy(ranges)).allowed

/** From the special-purpose address registries: not globally reachable; and multicast. */
const notGlobal: readonly (readonly [first: string, prefixBits: number, family: 'ipv4' | 'ipv6'])[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.0.0', 29, 'ipv4'],
  ['192.0.0.170', 31, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
  ['224.0.0.0', 4, 'ipv4'],
  ['240.0.0.0', 4, 'ipv4'],
  ['::', 127, 'ipv6'],
  ['64:ff9b:1::', 48, 'ipv6'],
  ['100::', 64, 'ipv6'],
  ['100:0:0:1::', 64, 'ipv6'],
  ['2001:2::', 48, 'ipv6'],
  ['2001:db8::', 32, 'ipv6'],
  ['3fff::', 20, 'ipv6'],
  ['5f00::', 16, 'ipv6'],
  ['fc00::', 7, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
]

describe('by default', () => {
  it.each([
    ['0.0.0.0', '0.255.255.255', undefined, '1.0.0.0'],
    ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
    ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
    ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
    ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
    ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
    ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
    ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
    ['192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
    ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
    ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
    ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
    ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
    ['224.0.0.0', '255.255.255.255', '223.255.255.255', undefined],
    ['168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
    ['::', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', undefined, '2000::'],
    [
      '4000::',
      'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
      '3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
      undefined,
    ],
    [
      '2001::',
      '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff',
      '2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
      '2001:200::',
    ],
    ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff::1', '2001:db9::'],
    ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:ffff::1', '2003::'],
    ['3ffe::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', '3ffd:ffff::1', '3fff:1000::'],
  ])('refuses %s to %s, and neither neighbour', (first, last, before, after) => {
    expect([first, allowed(first)]).toEqual([first, false])
    expect([last, allowed(last)]).toEqual([last, false])
    const neighbours = [before, after].filter((neighbour) => neighbour !== undefined)
    expect(neighbours.filter((neighbour) => !allowed(neighbour))).toEqual([])
  })

  it.each([
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::a00:1',
    '2002:7f00:1::',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
    '2606:4700::5efe:a00:1',
    '2606:4700::200:5efe:7f00:1',
    '4000::1',
    'fd00:ec2::254',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    '100::1',
    '5f00::1',
  ])('refuses the disguise %s', (address) => {
    expect(allowed(address)).toBe(false)
  })

  it.each(['1.1.1.1', '::ffff:1.1.1.1', '2606:4700:4700::1111', '2a00:1450::5efe:8.8.8.8'])(
    'allows %s',
    (address) => {
      expect(allowed(address)).toBe(true)
    },
  )

  it('names what a refused address is', () => {
    expect(judgeAddress('169.254.169.254', closed)).toEqual({
      allowed: false,
      use: 'the instance metadata service',
    })
    expect(judgeAddress('10.0.0.1', closed)).toEqual({ allowed: false, use: 'a private address' })
    expect(judgeAddress('example.com', closed)).toEqual({ allowed: false, use: 'not a valid address' })
  })

  it('never allows what the special-purpose registries call not globally reachable', () => {
    // Every byte but the first few is often zero, so that the narrow ranges are hit.
    const starts = fc.constantFrom(...notGlobal.map(([first]) => parseAddress(first)?.toByteArray() ?? []))
    const noise = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 255 })), {
      minLength: 16,
      maxLength: 16,
    })
    const list = new BlockList()
    for (const [first, prefixBits, family] of notGlobal) list.addSubnet(first, prefixBits, family)
    fc.assert(
      fc.property(starts, fc.integer({ min: 0, max: 16 }), noise, (start, keep, random) => {
        const parts = start.map((byte, at) => (at < keep ? byte : (random[at] ?? 0)))
        const text = textOf(parts)
        const listed = list.check(text, parts.length === 4 ? 'ipv4' : 'ipv6')
        expect([text, allowed(text) && listed]).toEqual([text, false])
      }),
      { numRuns: 5_000 },
    )
  })

  it('judges an IPv4 address and its mapped form alike', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 }), (octets) => {
        expect(allowed(`::ffff:${octets.join('.')}`)).toBe(allowed(octets.join('.')))
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('what the operator says', () => {
  it('opens exactly the range', () => {
    const loopback = { allowCidrs: ['127.0.0.0/8'] }
    expect(judgeAddress('127.0.0.1', policy(loopback))).toEqual({ allowed: true, byOperator: true })
    expect(allowed('::ffff:127.9.9.9', loopback)).toBe(true)
    expect(allowed('::1', loopback)).toBe(false)
    expect(allowed('10.0.0.1', loopback)).toBe(false)
  })

  it('closes more than the rules do, and beats what is opened', () => {
    expect(allowed('1.1.1.1', { denyCidrs: ['1.1.1.0/24'] })).toBe(false)
    expect(allowed('10.0.0.1', { allowCidrs: ['10.0.0.0/8'], denyCidrs: ['10.0.0.0/24'] })).toBe(false)
    expect(allowed('10.0.1.1', { allowCidrs: ['10.0.0.0/8'], denyCidrs: ['10.0.0.0/24'] })).toBe(true)
  })

  it('opens a metadata service only by its own address', () => {
    expect(allowed('169.254.169.254', { allowCidrs: ['0.0.0.0/0'] })).toBe(false)
    expect(allowed('169.254.169.254', { allowCidrs: ['169.254.0.0/16'] })).toBe(false)
    expect(allowed('169.254.1.1', { allowCidrs: ['169.254.0.0/16'] })).toBe(true)
    expect(allowed('169.254.169.254', { allowCidrs: ['169.254.169.254/32'] })).toBe(true)
    expect(allowed('fd00:ec2::254', { allowCidrs: ['::/0'] })).toBe(false)
  })

  it('opens NAT64 only for IPv4 addresses that may be called', () => {
    const nat64 = { allowCidrs: ['64:ff9b::/96'] }
    expect(allowed('64:ff9b::101:101', nat64)).toBe(true)
    expect(allowed('64:ff9b::7f00:1', nat64)).toBe(false)
    expect(allowed('64:ff9b::a9fe:a9fe', nat64)).toBe(false)
    expect(allowed('64:ff9b::101:101', { ...nat64, denyCidrs: ['1.1.1.1'] })).toBe(false)
  })

  it('says which setting closed an address', () => {
    const verdict = judgeAddress('1.1.1.1', policy({ denyCidrs: ['1.1.1.1'] }))
    expect(verdict).toEqual({ allowed: false, use: 'closed by the operator (setting egressDeny)' })
  })

  it('is refused with a pointer when it cannot be read', () => {
    const parsed = parsePolicy({ allowCidrs: ['10.0.0.0/8', 'ten'], denyCidrs: ['10.0.0.1/8'] })
    expect(parsed.ok ? [] : parsed.faults.map(({ pointer }) => pointer)).toEqual([
      '/allowCidrs/1',
      '/denyCidrs/0',
    ])
  })
})
