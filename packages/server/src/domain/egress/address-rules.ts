/**
 * Which addresses Belfry may call. By default only globally routable unicast ones; everything with a special
 * use is named and refused. The operator may open ranges (`egressAllow`) and close more (`egressDeny`). In
 * this order:
 *
 *   1. closed by the operator: refused, whatever else opens it
 *   2. opened by the operator: allowed; a metadata service only by a range of exactly that one address, and
 *      a form that carries an IPv4 address inside only if that IPv4 address is allowed too
 *   3. special use, or IPv6 outside 2000::/3: refused
 *   4. anything else: allowed
 */
import {
  type Address,
  type AddressRange,
  isSingle,
  knownRange,
  parseAddress,
  rangeContains,
  unmapped,
} from './address.ts'
import { embeddedIpv4 } from './embedded-ipv4.ts'

export interface AddressPolicy {
  readonly allow: readonly AddressRange[]
  readonly deny: readonly AddressRange[]
}

export type AddressVerdict =
  | { readonly allowed: true; readonly byOperator: boolean }
  | { readonly allowed: false; readonly use: string }

type UseRow = readonly [cidr: string, use: string]

/** The first row that holds an address names it. */
const metadataServices: readonly UseRow[] = [
  ['169.254.169.254', 'the instance metadata service'],
  ['169.254.170.2', 'the container credential service'],
  ['169.254.170.23', 'the pod identity service'],
  ['168.63.129.16', 'the Azure platform service'],
  ['100.100.100.200', 'the instance metadata service'],
  ['192.0.0.192', 'the instance metadata service'],
  ['fd00:ec2::254', 'the instance metadata service'],
  ['fd00:ec2::23', 'the pod identity service'],
  ['fd20:ce::254', 'the instance metadata service'],
  ['fe80::a9fe:a9fe', 'the instance metadata service'],
]

const specialUses: readonly UseRow[] = [
  ['0.0.0.0/8', 'an address of "this network"'],
  ['10.0.0.0/8', 'a private address'],
  ['100.64.0.0/10', 'a shared (carrier NAT) address'],
  ['127.0.0.0/8', 'a loopback address'],
  ['169.254.0.0/16', 'a link-local address'],
  ['172.16.0.0/12', 'a private address'],
  ['192.0.0.0/24', 'a protocol assignment'],
  ['192.0.2.0/24', 'a documentation address'],
  ['192.31.196.0/24', 'an AS112 sink'],
  ['192.52.193.0/24', 'a multicast tunnel'],
  ['192.88.99.0/24', 'a 6to4 relay'],
  ['192.168.0.0/16', 'a private address'],
  ['192.175.48.0/24', 'an AS112 sink'],
  ['198.18.0.0/15', 'a benchmarking address'],
  ['198.51.100.0/24', 'a documentation address'],
  ['203.0.113.0/24', 'a documentation address'],
  ['224.0.0.0/4', 'a multicast address'],
  ['255.255.255.255', 'the broadcast address'],
  ['240.0.0.0/4', 'a reserved address'],
  ['::', 'the unspecified address'],
  ['::1', 'a loopback address'],
  ['::/96', 'an IPv4-compatible address'],
  ['::ffff:0:0:0/96', 'an IPv4-translated address'],
  ['64:ff9b::/96', 'a NAT64 address'],
  ['64:ff9b:1::/48', 'a local NAT64 address'],
  ['100::/64', 'a discard address'],
  ['2001::/32', 'a Teredo address'],
  ['2001::/23', 'a protocol assignment'],
  ['2001:db8::/32', 'a documentation address'],
  ['2002::/16', 'a 6to4 address'],
  ['2620:4f:8000::/48', 'an AS112 sink'],
  ['3ffe::/16', 'an address of the former 6bone'],
  ['3fff::/20', 'a documentation address'],
  ['fc00::/7', 'a unique local address'],
  ['fe80::/10', 'a link-local address'],
  ['fec0::/10', 'a site-local address'],
  ['ff00::/8', 'a multicast address'],
]

function compiled(
  rows: readonly UseRow[],
): readonly { readonly range: AddressRange; readonly use: string }[] {
  return rows.map(([cidr, use]) => ({ range: knownRange(cidr), use }))
}

const metadata = compiled(metadataServices)
const special = compiled(specialUses)
const globalUnicast = knownRange('2000::/3')

const closedByOperator = 'closed by the operator (setting egressDeny)'

const holds = (ranges: readonly AddressRange[], address: Address): boolean =>
  ranges.some((range) => rangeContains(range, address))

/** What an address is for, if it is not an ordinary public one. */
function specialUse(address: Address): string | undefined {
  const row = [...metadata, ...special].find(({ range }) => rangeContains(range, address))
  if (row !== undefined) return row.use
  if (address.kind() === 'ipv4') return undefined
  if (!rangeContains(globalUnicast, address)) {
    return 'an address outside global unicast (2000::/3)'
  }
  const inner = embeddedIpv4(address)
  const innerUse = inner === undefined ? undefined : specialUse(inner)
  return innerUse === undefined ? undefined : `a tunnel to ${innerUse}`
}

/** Whether the address itself, not the IPv4 address inside it, is opened by a range that is narrow enough. */
function openedByOperator(address: Address, allow: readonly AddressRange[]): boolean {
  const isMetadata = metadata.some(({ range }) => rangeContains(range, address))
  return holds(isMetadata ? allow.filter(isSingle) : allow, address)
}

/** Judges one address, given as text; what does not parse is refused. */
export function judgeAddress(text: string, policy: AddressPolicy): AddressVerdict {
  const parsed = parseAddress(text)
  if (parsed === undefined) return { allowed: false, use: 'not a valid address' }
  return judge(unmapped(parsed), policy)
}

function judge(address: Address, policy: AddressPolicy): AddressVerdict {
  if (holds(policy.deny, address)) return { allowed: false, use: closedByOperator }
  const inner = embeddedIpv4(address)
  if (openedByOperator(address, policy.allow)) {
    const innerVerdict = inner === undefined ? undefined : judge(inner, policy)
    if (innerVerdict === undefined || innerVerdict.allowed) return { allowed: true, byOperator: true }
    return { allowed: false, use: `a tunnel to an address that is ${innerVerdict.use}` }
  }
  const use = specialUse(address)
  if (use !== undefined) return { allowed: false, use }
  if (inner !== undefined && holds(policy.deny, inner)) return { allowed: false, use: closedByOperator }
  return { allowed: true, byOperator: false }
}

/** Whether a range opens exactly one metadata service. */
export function opensMetadata(range: AddressRange): boolean {
  return isSingle(range) && metadata.some((row) => rangeContains(row.range, range.first))
}
