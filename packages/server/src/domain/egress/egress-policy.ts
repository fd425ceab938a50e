/**
 * The egress decision: may Belfry call this URL, and may it connect to what the name resolved to. Pure; the
 * module in security/egress asks it twice, when a target is stored and again at every connect.
 *
 *   stored    URL -> scheme, credentials, host literal, host name, port          (judgeUrl)
 *   connect   host, port, every resolved address -> one bad address refuses all  (judgeConnect)
 *
 * Names of private networks and unusual ports are accepted only for addresses that the operator opened. Where
 * any range is open, a name can be judged only once it is resolved, so judgeUrl leaves it to judgeConnect.
 */
import { parseAddress, parseRange } from './address.ts'
import { type AddressPolicy, judgeAddress, opensMetadata } from './address-rules.ts'
import { addressInName, judgeName } from './name-rules.ts'

export interface EgressPolicy extends AddressPolicy {
  /** Ports that may be called on addresses that the operator did not open by range; `*` for all. */
  readonly ports: readonly number[] | '*'
}

/** One reason why a target may not be stored; `pointer` is an RFC 6901 pointer into the request body. */
export interface EgressFault {
  readonly code: 'invalid_target'
  readonly pointer: string
  readonly message: string
}

export interface EgressRanges {
  readonly allowCidrs: readonly string[]
  readonly denyCidrs?: readonly string[]
  readonly allowPorts?: readonly number[] | '*'
}

export type PolicyResult =
  | { readonly ok: true; readonly policy: EgressPolicy }
  | { readonly ok: false; readonly faults: readonly { readonly pointer: string; readonly message: string }[] }

export const defaultPorts: readonly number[] = [80, 443, 8080, 8443]

/** Reads the operator's settings; pointers are `/allowCidrs/0` and the like. */
export function parsePolicy(ranges: EgressRanges): PolicyResult {
  const faults: { pointer: string; message: string }[] = []
  const parsed = (key: 'allowCidrs' | 'denyCidrs') =>
    (ranges[key] ?? []).flatMap((text, index) => {
      const result = parseRange(text)
      if (result.ok) return [result.range]
      faults.push({ pointer: `/${key}/${index}`, message: result.message })
      return []
    })
  const policy = {
    allow: parsed('allowCidrs'),
    deny: parsed('denyCidrs'),
    ports: ranges.allowPorts ?? defaultPorts,
  }
  return faults.length === 0 ? { ok: true, policy } : { ok: false, faults }
}

const askOperator = (what: string): string => `or ask the operator of this server to ${what}`

function addressFault(host: string, address: string, use: string): string {
  const shown = host === address ? address : `${host} (${address})`
  const bits = address.includes(':') ? 128 : 32
  const fix = askOperator(`allow "${address}/${bits}" or its network (setting egressAllow)`)
  return `leads to ${shown}: ${use}; use a public address, ${fix}`
}

function nameFault(host: string, use: 'private' | 'metadata'): string {
  const what = use === 'metadata' ? 'a metadata service' : 'a name inside a private network'
  const fix = askOperator('allow the network that it resolves to (setting egressAllow)')
  return `leads to "${host}", ${what}; use a public host name, ${fix}`
}

function portFault(port: number, ports: readonly number[]): string {
  const called = ports.length === 0 ? 'no port is called' : `only ${ports.join(', ')} are called`
  const fix = askOperator(
    'allow it (setting egressPorts), or its network with all ports (setting egressAllow)',
  )
  return `uses port ${port}; ${called} outside opened networks; use another port, ${fix}`
}

const portOf = (url: URL): number =>
  url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)

const portAllowed = (port: number, policy: EgressPolicy): boolean =>
  policy.ports === '*' || policy.ports.includes(port)

const fault = (message: string): EgressFault => ({ code: 'invalid_target', pointer: '/handler/url', message })

/** Why a URL may not be stored as a target, as far as that shows without a resolver; undefined if it may. */
export function judgeUrl(text: string, policy: EgressPolicy): EgressFault | undefined {
  if (!URL.canParse(text)) return fault('is not an absolute URL; write it like https://example.com/path')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return fault(`has the scheme "${url.protocol.slice(0, -1)}"; only http and https are called`)
  }
  if (url.username !== '' || url.password !== '') {
    return fault('must not hold credentials; send them in an "Authorization" header')
  }
  const message = hostFault(url.hostname.replace(/^\[|\]$/g, ''), portOf(url), policy)
  return message === undefined ? undefined : fault(message)
}

function hostFault(host: string, port: number, policy: EgressPolicy): string | undefined {
  if (parseAddress(host) !== undefined) return judgeConnect(host, port, [host], policy)
  const inside = addressInName(host)
  const verdict = inside === undefined ? undefined : judgeAddress(inside, policy)
  if (inside !== undefined && verdict?.allowed === false) return addressFault(host, inside, verdict.use)
  const use = judgeName(host)
  if (use === 'metadata' && !policy.allow.some(opensMetadata)) return nameFault(host, use)
  if (policy.allow.length > 0) return undefined
  if (use !== 'public') return nameFault(host, use)
  if (policy.ports !== '*' && !portAllowed(port, policy)) return portFault(port, policy.ports)
  return undefined
}

/**
 * Why no connection may be made to any of the addresses that a host resolved to; undefined if it may, to
 * each.
 */
export function judgeConnect(
  host: string,
  port: number,
  addresses: readonly string[],
  policy: EgressPolicy,
): string | undefined {
  let openedAll = true
  for (const address of addresses) {
    const verdict = judgeAddress(address, policy)
    if (!verdict.allowed) return addressFault(host, address, verdict.use)
    openedAll &&= verdict.byOperator
  }
  if (openedAll) return undefined
  const use = parseAddress(host) === undefined ? judgeName(host) : 'public'
  if (use !== 'public') return nameFault(host, use)
  if (policy.ports !== '*' && !portAllowed(port, policy)) return portFault(port, policy.ports)
  return undefined
}
