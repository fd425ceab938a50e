/**
 * Request headers that a job may not choose, on top of those that the contract reserves for the protocol:
 * headers that make others trust the caller, open metadata services, or belong to signatures that only Belfry
 * may make.
 */
import { reservedHeaders } from '@belfry/contract'
import type { EgressFault } from './egress-policy.ts'

const trustHeaders: ReadonlySet<string> = new Set([
  'cf-connecting-ip',
  'client-ip',
  'fastly-client-ip',
  'fly-client-ip',
  'forwarded',
  'true-client-ip',
  'x-appengine-user-ip',
  'x-azure-clientip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-envoy-external-address',
  'x-forwarded',
  'x-original-forwarded-for',
  'x-original-host',
  'x-original-url',
  'x-originating-ip',
  'x-real-ip',
  'x-remote-addr',
  'x-remote-ip',
  'x-rewrite-url',
])

const metadataHeaders: ReadonlySet<string> = new Set([
  'metadata',
  'metadata-flavor',
  'metadata-token',
  'x-aliyun-ecs-metadata-token',
  'x-aliyun-ecs-metadata-token-ttl-seconds',
  'x-aws-ec2-metadata-token',
  'x-aws-ec2-metadata-token-ttl-seconds',
  'x-google-metadata-request',
  'x-identity-header',
  'x-metadata-token',
])

const reserved: ReadonlySet<string> = new Set(reservedHeaders)

/** Why a job may not send a header of this name; undefined if it may. */
function headerFault(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower))
    return 'is not a valid header name; use letters, digits and "-"'
  // CGI, WSGI and PHP know "X_Real_IP" and "X-Real-IP" by one name
  const plain = lower.replaceAll(/[^0-9a-z]/g, '-')
  if (reserved.has(plain) || plain.startsWith('belfry-')) {
    return 'is set by Belfry or by the protocol; leave it out'
  }
  if (plain === 'http2-settings' || plain.startsWith('sec-websocket-'))
    return 'asks for another protocol, which is not spoken here; leave it out'
  if (plain.startsWith('webhook-'))
    return 'belongs to signatures, which only Belfry makes; choose another name'
  if (trustHeaders.has(plain) || plain.startsWith('x-forwarded-')) {
    return 'claims where a request comes from; leave it out, and use a header of your own for routing'
  }
  if (metadataHeaders.has(plain)) return 'opens metadata services; leave it out'
  return undefined
}

/** Every header that a job may not send, with an RFC 6901 pointer to it. */
export function headerFaults(headers: Readonly<Record<string, string>>): readonly EgressFault[] {
  return Object.keys(headers).flatMap((name): EgressFault[] => {
    const message = headerFault(name)
    if (message === undefined) return []
    const pointer = `/handler/headers/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    return [{ code: 'invalid_target', pointer, message }]
  })
}
