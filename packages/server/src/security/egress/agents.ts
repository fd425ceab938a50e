/**
 * The connections that calls go out by. Calls of all tenants share them, except where what was settled when a
 * connection was made differs:
 *
 *   shared      calls under the egress rules, with nothing special about TLS
 *   operator    calls to what the operator configured, which may be a private address
 *   tls …       one agent for each client certificate and private authority, so that nobody ever calls by a
 *               connection which was opened with somebody else's certificate
 *
 * Agents of the last kind are bounded in number; the one that was unused for longest ends its calls and goes.
 */
import { createHash } from 'node:crypto'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { Agent } from 'undici'
import type { EgressPolicy } from '../../domain/egress/egress-policy.ts'
import type { EgressRequest, EgressTls } from '../../ports/egress.ts'
import { type Connector, type ConnectorOptions, createConnector } from './connector.ts'
import { wireShare } from './wire-limit.ts'

export interface AgentLimits {
  readonly connectTimeoutMs: number
  readonly connectionsPerOrigin: number
  readonly idleTimeoutMs: number
  readonly maxHeaderBytes: number
  readonly maxResponseBytes: number
}

export interface AgentsOptions extends Pick<ConnectorOptions, 'clock' | 'resolve' | 'dial'> {
  readonly policy: EgressPolicy
  readonly limits: AgentLimits
  /** Trusted besides the default authorities, PEM. */
  readonly extraAuthorities: readonly string[] | undefined
}

export interface Agents {
  /** Throws where certificate, key or authority of the request cannot be used. */
  of(request: Pick<EgressRequest, 'byOperator' | 'tls'>): Agent
  /** Ends every call and connection. */
  close(): Promise<void>
}

interface Line {
  readonly agent: Agent
  readonly connector: Connector
}

const maxTlsLines = 256

function tlsKey({ certificate, privateKey, authority }: EgressTls, byOperator: boolean): string {
  const hash = createHash('sha256')
  // lengths first, so that no two sets of texts run into each other
  for (const part of [certificate, privateKey, authority]) hash.update(`${part?.length ?? -1}:${part ?? ''}`)
  return `${byOperator ? 'operator' : 'tls'} ${hash.digest('base64')}`
}

function contextOf(
  tls: EgressTls | undefined,
  trusted: readonly string[] | undefined,
): SecureContext | undefined {
  const ca = tls?.authority ?? (trusted === undefined ? undefined : [...trusted])
  if (tls === undefined && ca === undefined) return undefined
  return createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(tls?.certificate === undefined ? {} : { cert: tls.certificate }),
    ...(tls?.privateKey === undefined ? {} : { key: tls.privateKey }),
  })
}

export function createAgents(options: AgentsOptions): Agents {
  const { limits, extraAuthorities } = options
  const lines = new Map<string, Line>()
  const retired = new Set<Line>()
  const trusted = extraAuthorities && [...getCACertificates('default'), ...extraAuthorities]

  function open(tls: EgressTls | undefined, byOperator: boolean): Line {
    const { clock, resolve, dial, policy } = options
    const { connectTimeoutMs } = limits
    const maxWireBytes = limits.maxResponseBytes * wireShare
    const rules = byOperator ? 'none' : policy
    const own = { rules, secureContext: contextOf(tls, trusted), connectTimeoutMs, maxWireBytes } as const
    const connector = createConnector({ clock, resolve, dial, ...own })
    const agent = new Agent({
      connect: connector.connect,
      connections: limits.connectionsPerOrigin,
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: limits.maxHeaderBytes,
      // A handler may rightly think for hours before it answers: the caller's signal is the deadline.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: limits.idleTimeoutMs,
      keepAliveMaxTimeout: limits.idleTimeoutMs,
    })
    return { agent, connector }
  }

  /** Lets its calls end; `close` ends them before that. */
  function retire(line: Line): void {
    retired.add(line)
    const gone = (): unknown => retired.delete(line)
    line.agent.close().then(gone, gone)
  }

  function retireOldest(): void {
    const special = [...lines].filter(([key]) => key.includes(' '))
    const [oldest] = special
    if (special.length <= maxTlsLines || oldest === undefined) return
    lines.delete(oldest[0])
    retire(oldest[1])
  }

  return {
    of({ byOperator = false, tls }) {
      const key = tls === undefined ? (byOperator ? 'operator' : 'shared') : tlsKey(tls, byOperator)
      const line = lines.get(key) ?? open(tls, byOperator)
      // at the end of the map are those that were used last
      if (tls !== undefined) lines.delete(key)
      lines.set(key, line)
      if (tls !== undefined) retireOldest()
      return line.agent
    },
    async close() {
      const all = [...lines.values(), ...retired]
      for (const { connector } of all) connector.close()
      await Promise.all(all.map(({ agent }) => agent.destroy()))
    },
  }
}
