/**
 * The worker's session: opened when there is none, held by its lease, lost when the server or the lease says
 * so. One at a time; a lost one never comes back.
 */
import { hostname } from 'node:os'
import type { WorkerOpened } from '@belfry/contract'
import type { Renewed } from './heartbeat-thread.ts'
import type { Lease } from './lease.ts'
import { holdLease } from './lease.ts'
import type { Protocol } from './protocol.ts'
import type { WorkerListener } from './worker-events.ts'

export interface Session extends WorkerOpened {
  readonly lease: Lease
}

export interface SessionsOptions {
  readonly protocol: Protocol
  readonly functions: readonly string[]
  readonly queues: readonly string[]
  readonly slots: number
  readonly version: string
  readonly tell: WorkerListener
  readonly onRenewed: (sessionId: string, renewed: Renewed) => void
  /** What the session held is somebody else's from now on. */
  readonly onLost: (sessionId: string) => void
}

export interface Sessions {
  readonly current: () => Session | undefined
  /** The present one, or a new one. Throws as the call does. */
  readonly ensure: () => Promise<Session>
  readonly lose: (sessionId: string) => void
  /** Ends the lease without calling it lost. */
  readonly drop: () => Session | undefined
}

export function createSessions(options: SessionsOptions): Sessions {
  const { protocol, functions, queues, slots, version, tell } = options
  let current: Session | undefined

  function lose(sessionId: string): void {
    if (current?.id !== sessionId) return
    current.lease.end()
    current = undefined
    tell({ kind: 'session_lost', sessionId })
    options.onLost(sessionId)
  }

  return {
    current: () => current,
    lose,
    async ensure() {
      if (current !== undefined) return current
      const openedAt = process.hrtime.bigint()
      const body = { functions: [...functions], queues: [...queues], slots, host: hostname(), version }
      const opened = await protocol.open(body)
      const { id, leaseMs, heartbeatMs } = opened
      const lease = holdLease({
        url: protocol.heartbeatUrl(id),
        headers: protocol.headers,
        leaseMs,
        heartbeatMs,
        openedAt,
        onRenewed: (renewed) => options.onRenewed(id, renewed),
        onLost: () => lose(id),
        onTrouble: (what, error, retryInMs) => tell({ kind: 'trouble', what, error, retryInMs }),
      })
      current = { ...opened, lease }
      tell({ kind: 'session_opened', sessionId: id })
      return current
    },
    drop() {
      const last = current
      last?.lease.end()
      current = undefined
      return last
    },
  }
}
