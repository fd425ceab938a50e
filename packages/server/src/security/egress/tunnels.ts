/**
 * The way out for containers (ports/tunnels.ts): the connector of the HTTP client without HTTP. What is asked
 * for is judged, resolved once, judged again with every answer, and dialled at these answers alone.
 */
import { isIP, type Socket } from 'node:net'
import type { Clock } from '../../ports/clock.ts'
import type { TunnelOutcome, Tunnels } from '../../ports/tunnels.ts'
import { type Dial, dial as dialSystem, type ResolvedAddress } from './dial.ts'
import { systemResolver } from './egress.ts'
import type { Resolver } from './lookups.ts'

export interface TunnelOptions {
  readonly clock: Clock
  /** The system's by default. */
  readonly resolver?: Resolver
  readonly dial?: Dial
  /** Name resolution and connection together. */
  readonly connectTimeoutMs?: number
}

const failed = (message: string): TunnelOutcome => ({ ok: false, code: 'failed', message })

export function createTunnels({
  clock,
  resolver = systemResolver(clock),
  dial = dialSystem,
  connectTimeoutMs = 10_000,
}: TunnelOptions): Tunnels {
  async function resolve(host: string, signal: AbortSignal): Promise<readonly ResolvedAddress[]> {
    const family = isIP(host)
    return family === 0 ? resolver(host, signal) : [{ address: host, family }]
  }

  function connect(host: string, port: number, addresses: readonly ResolvedAddress[], over: AbortSignal) {
    return new Promise<TunnelOutcome>((done) => {
      const target = { protocol: 'http:', host, port, addresses, secureContext: undefined } as const
      const socket: Socket = dial(target, (error, ready) => {
        over.removeEventListener('abort', stop)
        if (ready !== null) done({ ok: true, socket: ready })
        else done(failed(error?.message ?? `${host}:${port} cannot be connected to`))
      })
      socket.on('error', () => undefined)
      function stop(): void {
        socket.destroy()
        done(failed(`${host}:${port} took too long to connect to`))
      }
      over.addEventListener('abort', stop, { once: true })
      if (over.aborted) stop()
    })
  }

  return {
    async open(host, port, rules, signal) {
      const refused = rules.hostDenied(host, port)
      if (refused !== undefined) return { ok: false, code: 'denied', message: refused }
      const late = new AbortController()
      const timer = clock.setTimer(connectTimeoutMs, () => late.abort())
      const over = AbortSignal.any([signal, late.signal])
      try {
        const addresses = await resolve(host, over)
        if (addresses.length === 0) return failed(`${host} has no address`)
        const plain = addresses.map(({ address }) => address)
        const denied = rules.addressDenied(host, port, plain)
        if (denied !== undefined) return { ok: false, code: 'denied', message: denied }
        return await connect(host, port, addresses, over)
      } catch {
        return failed(`the name ${host} could not be resolved`)
      } finally {
        timer.cancel()
      }
    },
  }
}
