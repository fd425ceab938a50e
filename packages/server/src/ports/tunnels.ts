/**
 * Plain connections to a host on somebody's behalf, for what a container asks for by its proxy. As with
 * EgressAgent, a name is resolved once, every answer is judged, and the socket goes to these answers alone.
 */
import type { Duplex } from 'node:stream'
import type { TunnelRules } from '../domain/container/egress-class.ts'

export type TunnelOutcome =
  | { readonly ok: true; readonly socket: Duplex }
  /** `denied`: no connection was opened. */
  | { readonly ok: false; readonly code: 'denied' | 'failed'; readonly message: string }

export interface Tunnels {
  /** Never rejects. The signal ends the attempt, not the connection. */
  open(host: string, port: number, rules: TunnelRules, signal: AbortSignal): Promise<TunnelOutcome>
}
