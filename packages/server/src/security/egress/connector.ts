/**
 * The connector of the HTTP client: the one place where an outbound connection is made, and therefore where
 * the address rules hold. For each connection:
 *
 *   1. an IP literal is its own answer; a name is resolved, once
 *   2. every answer is judged together with host and port; one that is denied refuses the lot
 *   3. the socket is opened to these answers, no others
 *   4. one deadline covers 1 to 3 and the TLS handshake
 */
import { isIP, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { buildConnector } from 'undici'
import { type EgressPolicy, judgeConnect } from '../../domain/egress/egress-policy.ts'
import type { Clock } from '../../ports/clock.ts'
import { ConnectError, dnsFailure } from './connect-error.ts'
import type { Dial, ResolvedAddress } from './dial.ts'
import type { Resolver } from './lookups.ts'
import { limitWire } from './wire-limit.ts'

export interface ConnectorOptions {
  /** `none`: the operator says whom to call. */
  readonly rules: EgressPolicy | 'none'
  readonly clock: Clock
  readonly resolve: Resolver
  readonly dial: Dial
  readonly connectTimeoutMs: number
  readonly secureContext: SecureContext | undefined
  /** What one call may receive in all, see wire-limit.ts. */
  readonly maxWireBytes: number
}

export interface Connector {
  readonly connect: buildConnector.connector
  /** Destroys what is still being connected; later attempts fail at once. */
  close(): void
}

async function resolveHost(
  host: string,
  resolve: Resolver,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const family = isIP(host)
  if (family !== 0) return [{ address: host, family }]
  try {
    const addresses = await resolve(host, signal)
    if (addresses.length > 0) return addresses
  } catch (error) {
    throw dnsFailure(error, host)
  }
  throw dnsFailure(Object.assign(new Error('no address'), { code: 'ENODATA' }), host)
}

interface Attempt {
  /** Fires when the deadline or the end of the agent has come. */
  readonly over: AbortSignal
  readonly opened: (socket: Socket) => void
}

async function open(
  options: ConnectorOptions,
  target: { readonly protocol: string; readonly host: string; readonly port: number },
  done: (error: Error | null, socket: Socket | null) => void,
  attempt: Attempt,
): Promise<void> {
  const { rules, resolve, dial, secureContext } = options
  try {
    const { host, port } = target
    const addresses = await resolveHost(host, resolve, attempt.over)
    if (attempt.over.aborted) return
    const plain = addresses.map(({ address }) => address)
    const refusal = rules === 'none' ? undefined : judgeConnect(host, port, plain, rules)
    if (refusal !== undefined) throw new ConnectError('target_denied', `the target ${refusal}`)
    const protocol = target.protocol === 'https:' ? 'https:' : 'http:'
    attempt.opened(dial({ protocol, host, port, addresses, secureContext }, done))
  } catch (error) {
    done(error instanceof Error ? error : new Error('the connection failed'), null)
  }
}

export function createConnector(options: ConnectorOptions): Connector {
  const { clock, connectTimeoutMs } = options
  const cancels = new Set<(error: ConnectError) => void>()
  let closed = false

  return {
    connect(request, callback) {
      const port = request.port === '' ? (request.protocol === 'https:' ? 443 : 80) : Number(request.port)
      const host = request.hostname
      let settled = false
      const over = new AbortController()
      let socket: Socket | undefined
      const settle = (error: Error | null, ready: Socket | null): void => {
        if (settled) return
        settled = true
        over.abort()
        timer.cancel()
        cancels.delete(cancel)
        if (ready !== null) {
          limitWire(ready, options.maxWireBytes)
          callback(null, ready)
          return
        }
        socket?.on('error', () => undefined).destroy()
        callback(error ?? new Error('no socket'), null)
      }
      const cancel = (error: ConnectError): void => settle(error, null)
      const timer = clock.setTimer(connectTimeoutMs, () => {
        const within = `within ${connectTimeoutMs} ms`
        cancel(
          new ConnectError('connect_timeout', `no connection to ${host}:${port} could be made ${within}`),
        )
      })
      cancels.add(cancel)
      if (closed) {
        cancel(new ConnectError('aborted', 'the server is shutting down'))
        return
      }
      void open(options, { protocol: request.protocol, host, port }, settle, {
        over: over.signal,
        opened: (opened) => {
          socket = opened
          opened.on('error', () => undefined)
        },
      })
    },
    close() {
      closed = true
      for (const cancel of cancels) cancel(new ConnectError('aborted', 'the server is shutting down'))
    },
  }
}
