/**
 * What the network of a container may reach, by the name that its job gives: `none`, `internet`, or a list of
 * the operator's. Pure. The container has no network but a proxy of ours, which asks here for each
 * connection.
 *
 *   internet   public addresses on the usual ports; what `egressAllow` opens for HTTP calls stays closed
 *   a list     its hosts, where they lead to public addresses or to such as `egressAllow` opens
 */
import { parseAddress } from '../egress/address.ts'
import { judgeAddress } from '../egress/address-rules.ts'
import { type EgressPolicy, judgeConnect } from '../egress/egress-policy.ts'
import { judgeName } from '../egress/name-rules.ts'
import { type HostPattern, matchingHosts, parseHostPattern } from './host-list.ts'

/** Why a connection may not be made, in words that follow its `host:port`; undefined where it may. */
export interface TunnelRules {
  /** Before any name is resolved. */
  hostDenied(host: string, port: number): string | undefined
  /** For every address that the host resolved to. */
  addressDenied(host: string, port: number, addresses: readonly string[]): string | undefined
}

export interface EgressClasses {
  readonly internet: boolean
  /** Patterns of hosts by the name of their list. */
  readonly lists: ReadonlyMap<string, readonly string[]>
  readonly policy: EgressPolicy
}

/** Names of classes that a job may give. */
export const classNames = ({
  internet,
  lists,
}: Pick<EgressClasses, 'internet' | 'lists'>): readonly string[] => [
  'none',
  ...(internet ? ['internet'] : []),
  ...lists.keys(),
]

/** Why a class may not be given, with the fix; undefined where it may. */
export function egressDenied(name: string, classes: Parameters<typeof classNames>[0]): string | undefined {
  const names = classNames(classes)
  if (names.includes(name)) return undefined
  const setting = name === 'internet' ? 'containerInternet' : 'containerEgressLists'
  const fix = `use one of these, or ask the operator (setting ${setting})`
  return `is not a class of egress here, only ${names.join(', ')}; ${fix}`
}

/** Undefined: no network at all, which is also what a class gets that there is no more. */
export function egressRules(name: string, classes: EgressClasses): TunnelRules | undefined {
  if (name === 'internet') return classes.internet ? internetRules(classes.policy) : undefined
  const list = classes.lists.get(name)
  if (name === 'none' || list === undefined) return undefined
  const patterns = list.flatMap((text) => {
    const parsed = parseHostPattern(text)
    return parsed.ok ? [parsed.pattern] : []
  })
  return listRules(name, patterns, classes.policy)
}

function portDenied(port: number, ports: EgressPolicy['ports']): string | undefined {
  if (ports === '*' || ports.includes(port)) return undefined
  return `uses port ${port}; only ${ports.join(', ')} are open (setting egressPorts)`
}

function internetRules({ deny, ports }: EgressPolicy): TunnelRules {
  const own = { allow: [], deny, ports }
  const addressDenied = (host: string, _port: number, addresses: readonly string[]): string | undefined => {
    for (const address of addresses) {
      const verdict = judgeAddress(address, own)
      if (verdict.allowed) continue
      const shown = host === address ? address : `${host} (${address})`
      const rule = 'containers with the egress "internet" reach public addresses alone'
      return `leads to ${shown}: ${verdict.use}; ${rule}`
    }
    return undefined
  }
  return {
    hostDenied(host, port) {
      if (parseAddress(host) !== undefined)
        return addressDenied(host, port, [host]) ?? portDenied(port, ports)
      if (judgeName(host) === 'public') return portDenied(port, ports)
      return `leads to "${host}", a name inside a private network; use a public one`
    },
    addressDenied,
  }
}

function listRules(name: string, patterns: readonly HostPattern[], policy: EgressPolicy): TunnelRules {
  return {
    hostDenied(host, port) {
      const found = matchingHosts(host, port, patterns)
      if (found.length === 0) return `is not on the list "${name}" of this job's egress`
      return found.some((pattern) => pattern.port === port) ? undefined : portDenied(port, policy.ports)
    },
    addressDenied: (host, port, addresses) => judgeConnect(host, port, addresses, { ...policy, ports: '*' }),
  }
}
