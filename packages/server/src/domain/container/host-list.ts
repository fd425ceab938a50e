/**
 * Hosts that a list of the operator opens for containers: a name, `*.` and a name for all below it, or an
 * address; with a port behind a colon only that port. Pure.
 */
import { parseAddress } from '../egress/address.ts'

export interface HostPattern {
  /** Lower case; without the star of a wildcard, which then begins with a dot. */
  readonly host: string
  /** Undefined: those that `egressPorts` allows. */
  readonly port: number | undefined
}

export type HostPatternResult =
  | { readonly ok: true; readonly pattern: HostPattern }
  /** Follows the word "which". */
  | { readonly ok: false; readonly fault: string }

const fault = 'is not a host; write it like api.example.com, *.example.com or api.example.com:8443'
const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const form = new RegExp(`^(\\*\\.)?(${label}(?:\\.${label})*)(?::(\\d{1,5}))?$`)
const bracketed = /^\[([0-9a-f:.]+)\](?::(\d{1,5}))?$/

export function parseHostPattern(text: string): HostPatternResult {
  const lower = text.toLowerCase()
  const [, inner, innerPort] = bracketed.exec(lower) ?? []
  if (inner !== undefined) {
    return parseAddress(inner) === undefined ? { ok: false, fault } : withPort(inner, innerPort)
  }
  const [, star, name, port] = form.exec(lower) ?? []
  if (name === undefined || (star !== undefined && !name.includes('.'))) return { ok: false, fault }
  if (star !== undefined && parseAddress(name) !== undefined) return { ok: false, fault }
  return withPort(star === undefined ? name : `.${name}`, port)
}

function withPort(host: string, text: string | undefined): HostPatternResult {
  const port = text === undefined ? undefined : Number(text)
  if (port !== undefined && (port < 1 || port > 65_535)) return { ok: false, fault }
  return { ok: true, pattern: { host, port } }
}

/** The patterns that a host and port fall under. */
export function matchingHosts(
  host: string,
  port: number,
  patterns: readonly HostPattern[],
): readonly HostPattern[] {
  const name = host.toLowerCase().replace(/\.$/, '')
  return patterns.filter(
    (each) =>
      (each.port === undefined || each.port === port) &&
      (each.host.startsWith('.') ? name.endsWith(each.host) : name === each.host),
  )
}
