/**
 * Host names that never lead to the public internet, or that lead to a metadata service. They are refused
 * before any resolver is asked, unless the operator opened address ranges that they may turn out to lie in.
 */

/** Names of metadata services, without a trailing dot. */
const metadataNames: ReadonlySet<string> = new Set([
  'instance-data',
  'instance-data.ec2.internal',
  'metadata',
  'metadata.aws.internal',
  'metadata.azure.internal',
  'metadata.goog',
  'metadata.google.internal',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'metadata.tencentyun.com',
])

/** Top-level labels and suffixes that exist only inside a network. */
const privateSuffixes = [
  'arpa',
  'corp',
  'home',
  'internal',
  'intranet',
  'invalid',
  'lan',
  'local',
  'localdomain',
  'localhost',
  'onion',
  'private',
  'svc',
] as const

export type NameUse = 'public' | 'private' | 'metadata'

/** What a host name of a URL (lower case, punycode) stands for. */
export function judgeName(host: string): NameUse {
  const name = host.toLowerCase().replace(/\.+$/, '')
  if (metadataNames.has(name)) return 'metadata'
  if (!name.includes('.')) return 'private'
  const last = name.slice(name.lastIndexOf('.') + 1)
  return (privateSuffixes as readonly string[]).includes(last) ? 'private' : 'public'
}
