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
  'consul',
  'corp',
  'default',
  'docker',
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

/** Public names that lead to this machine, or to the address that stands in them: made for tests. */
const loopbackNames = ['lacolhost.com', 'localtest.me', 'lvh.me', 'vcap.me'] as const
const addressNames = ['nip.io', 'sslip.io', 'traefik.me', 'xip.io'] as const

export type NameUse = 'public' | 'private' | 'metadata'

/** What a host name of a URL (lower case, punycode) stands for. */
export function judgeName(host: string): NameUse {
  const name = host.toLowerCase().replace(/\.+$/, '')
  if (metadataNames.has(name)) return 'metadata'
  if (!name.includes('.')) return 'private'
  if (isBelow(name, loopbackNames)) return 'private'
  const last = name.slice(name.lastIndexOf('.') + 1)
  return (privateSuffixes as readonly string[]).includes(last) ? 'private' : 'public'
}

const isBelow = (name: string, domains: readonly string[]): boolean =>
  domains.some((domain) => name === domain || name.endsWith(`.${domain}`))

/** The IPv4 address that a name of a service for that leads to, as the name says; it is not asked for. */
export function addressInName(host: string): string | undefined {
  const name = host.toLowerCase().replace(/\.+$/, '')
  if (!isBelow(name, addressNames)) return undefined
  const [, a = '', b = '', c = '', d = ''] =
    /(?:^|[.-])(\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-]/.exec(name) ?? []
  if (d !== '') return [a, b, c, d].map(Number).join('.')
  const hex = /(?:^|[.-])([0-9a-f]{8})\./.exec(name)?.[1]
  return hex
    ?.match(/../g)
    ?.map((byte) => Number.parseInt(byte, 16))
    .join('.')
}
