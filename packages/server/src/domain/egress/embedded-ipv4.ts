/**
 * IPv6 addresses that lead to an IPv4 address: the transition forms, each with the place where it carries the
 * IPv4 address. `::ffff:a.b.c.d` is not among them: the kernel takes it for the IPv4 address itself (see
 * `unmapped`).
 */
import ipaddr from 'ipaddr.js'
import { type Address, knownRange, rangeContains } from './address.ts'

interface Form {
  readonly range: ReturnType<typeof knownRange>
  /** Index of the first byte of the IPv4 address. */
  readonly at: number
  /** Teredo sends every bit inverted. */
  readonly inverted?: true
}

const forms: readonly Form[] = [
  { range: knownRange('::/96'), at: 12 },
  { range: knownRange('::ffff:0:0:0/96'), at: 12 },
  { range: knownRange('64:ff9b::/96'), at: 12 },
  { range: knownRange('64:ff9b:1::/48'), at: 12 },
  { range: knownRange('2002::/16'), at: 2 },
  { range: knownRange('2001::/32'), at: 12, inverted: true },
]

/** `::` and `::1` look IPv4-compatible and are not. */
const own = knownRange('::/127')

/** ISATAP: an interface id of 0:5efe or 200:5efe before the address, in any network. */
const isIsatap = ({ parts }: ipaddr.IPv6): boolean =>
  (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe

/** The IPv4 address that a transition form of IPv6 leads to, where it carries one. */
export function embeddedIpv4(address: Address): ipaddr.IPv4 | undefined {
  if (!(address instanceof ipaddr.IPv6) || rangeContains(own, address)) return undefined
  const form = forms.find(({ range }) => rangeContains(range, address))
  if (form === undefined && !isIsatap(address)) return undefined
  const at = form?.at ?? 12
  const bytes = address.toByteArray().slice(at, at + 4)
  return new ipaddr.IPv4(form?.inverted === true ? bytes.map((byte) => byte ^ 0xff) : bytes)
}
