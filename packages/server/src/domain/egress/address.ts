/**
 * IP addresses and CIDR ranges, read by ipaddr.js from the canonical texts that a URL parser and a resolver
 * give. Everything else is refused before ipaddr.js sees it, because ipaddr.js takes more than that:
 *
 *   127.1, 0177.0.0.1, 0x7f.1   short, octal and hex IPv4: other readers see another address in them
 *   ::1.2.3.4                   read as ::ffff:1.2.3.4, an address that the kernel would not connect to
 *   ::ffff:010.0x7f.0.1         parts of a dotted end as decimals or hex, as it comes
 *   fe80::1%eth0                a zone names an interface of this machine, never a target
 *   10.0.0.0/08                 a prefix length with zeros in front
 */
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6

export interface AddressRange {
  /** First address of the range. */
  readonly first: Address
  readonly prefixBits: number
}

export type RangeResult =
  | { readonly ok: true; readonly range: AddressRange }
  | { readonly ok: false; readonly message: string }

function parseIpv4(text: string): ipaddr.IPv4 | undefined {
  return ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text) : undefined
}

/** `::1.2.3.4` as `::102:304`; undefined if the dotted end is not an IPv4 address. */
function withoutDots(text: string): string | undefined {
  if (!text.includes('.')) return text
  const end = text.lastIndexOf(':') + 1
  const dotted = parseIpv4(text.slice(end))
  if (dotted === undefined) return undefined
  const groups = dotted.toIPv4MappedAddress().parts.slice(6)
  return text.slice(0, end) + groups.map((group) => group.toString(16)).join(':')
}

function parseIpv6(text: string): ipaddr.IPv6 | undefined {
  const plain = text.includes('%') ? undefined : withoutDots(text)
  return plain !== undefined && ipaddr.IPv6.isValid(plain) ? ipaddr.IPv6.parse(plain) : undefined
}

/**
 * An address in its canonical text, IPv6 with or without brackets; undefined for anything else, zone ids
 * included.
 */
export function parseAddress(text: string): Address | undefined {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text
  return bare.includes(':') ? parseIpv6(bare) : parseIpv4(bare)
}

/**
 * The IPv4 address behind `::ffff:a.b.c.d`, which the kernel connects to as IPv4; every other address
 * unchanged.
 */
export function unmapped(address: Address): Address {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address
}

export function rangeContains(range: AddressRange, address: Address): boolean {
  return range.first.kind() === address.kind() && address.match(range.first, range.prefixBits)
}

const familyBits = (address: Address): number => (address.kind() === 'ipv4' ? 32 : 128)

/** Whether the range is one address. */
export function isSingle(range: AddressRange): boolean {
  return range.prefixBits === familyBits(range.first)
}

/** The address with every bit beyond the prefix cleared. */
function firstOf(address: Address, prefixBits: number): Address {
  const reader = address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  return reader.networkAddressFromCIDR(`${address.toString()}/${prefixBits}`)
}

/**
 * A range from CIDR text; a bare address is a range of one. Bits set beyond the prefix are refused, because
 * `10.1.2.3/8` opens far more than its writer may think.
 */
export function parseRange(text: string): RangeResult {
  const [addressText = '', bitsText, ...rest] = text.split('/')
  const address = addressText.startsWith('[') ? undefined : parseAddress(addressText)
  if (address === undefined || rest.length > 0) {
    return refused(`"${text}" is not an address range; write it like 10.0.0.0/8 or fd00::/8`)
  }
  const allBits = familyBits(address)
  if (bitsText !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(bitsText)) {
    return refused(
      `"${text}" has no valid prefix length; write a number from 0 to ${allBits} after the slash`,
    )
  }
  const prefixBits = bitsText === undefined ? allBits : Number(bitsText)
  if (prefixBits > allBits) return refused(`"${text}" has a prefix longer than ${allBits} bits`)
  const first = firstOf(address, prefixBits)
  if (!rangeContains({ first, prefixBits: allBits }, address)) {
    return refused(
      `"${text}" has bits set beyond its prefix; ` +
        `write its first address, ${first.toString()}/${prefixBits}, or /${allBits} for this one`,
    )
  }
  return { ok: true, range: withoutMapping({ first, prefixBits }) }
}

/** A range that is written in the source. Throws on one that cannot be read. */
export function knownRange(cidr: string): AddressRange {
  const parsed = parseRange(cidr)
  if (!parsed.ok) throw new Error(parsed.message)
  return parsed.range
}

function refused(message: string): RangeResult {
  return { ok: false, message }
}

/** `::ffff:10.0.0.0/104` is the same range as `10.0.0.0/8`. */
function withoutMapping(range: AddressRange): AddressRange {
  const plain = unmapped(range.first)
  if (plain === range.first || range.prefixBits < 96) return range
  return { first: plain, prefixBits: range.prefixBits - 96 }
}
