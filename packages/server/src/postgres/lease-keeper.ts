/**
 * A session kept alive from a thread (lease-thread.ts): what it renewed is read from shared memory, so that
 * it counts as soon as a blocked event loop is free again. A thread that ends by itself is reported and made
 * again; until then the worker's own heartbeats keep the lease.
 */
import { Worker as Thread } from 'node:worker_threads'
import type { Clock, Timer } from '../ports/clock.ts'
import type { LeaseKeeper } from '../ports/lease-keeper.ts'
import type { LeaseThreadSetup, ToLeaseThread } from './lease-thread.ts'
import type { ConnectionOptions } from './hosts.ts'
import { renewSession } from './statements/sessions.ts'
import { begin, commit, enterScopeByIndex } from './statements/transaction.ts'

const statementTimeoutMs = '5000'
const idleTimeoutMs = '10000'
const respawnMs = 1_000

interface HeldSession {
  readonly id: string
  readonly leaseMs: number
  readonly onFailed: (error: Error, retryInMs: number) => void
}

export function createLeaseKeeper(options: { connection: ConnectionOptions; clock: Clock }): LeaseKeeper {
  const { connection, clock } = options
  const renewedAt = new BigInt64Array(new SharedArrayBuffer(8))
  let held: HeldSession | undefined
  let thread: Thread | undefined
  let respawn: Timer | undefined
  let closed = false

  function spawn(): Thread {
    const made = makeThread(connection, renewedAt)
    let cause: unknown
    made.on('error', (error: unknown) => {
      cause = error
    })
    made.on('exit', (code) => ended(made, cause ?? new Error(`it ended with code ${code}`)))
    return made
  }

  function ended(made: Thread, cause: unknown): void {
    if (thread !== made) return
    thread = undefined
    if (closed || held === undefined) return
    const words = cause instanceof Error ? cause.message : String(cause)
    held.onFailed(new Error(`The thread that keeps the lease ended: ${words}`, { cause }), respawnMs)
    respawn = clock.setTimer(respawnMs, () => {
      if (held !== undefined) startKeeping(held)
    })
  }

  function startKeeping({ id, leaseMs }: HeldSession): void {
    respawn?.cancel()
    thread ??= spawn()
    tell({ kind: 'hold', sessionId: id, leaseMs })
  }

  function tell(message: ToLeaseThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread?.postMessage(message)
  }

  return {
    hold(sessionId, leaseMs, onFailed) {
      held = { id: sessionId, leaseMs, onFailed }
      Atomics.store(renewedAt, 0, 0n)
      startKeeping(held)
    },
    drop() {
      held = undefined
      respawn?.cancel()
      tell({ kind: 'drop' })
    },
    renewedAtMs(sessionId) {
      const atNs = Atomics.load(renewedAt, 0)
      if (sessionId !== held?.id || atNs === 0n) return undefined
      return clock.monotonicMs() - Number(process.hrtime.bigint() - atNs) / 1e6
    },
    async close() {
      closed = true
      respawn?.cancel()
      tell({ kind: 'stop' })
    },
  }
}

/** It keeps no process alive. */
function makeThread(connection: ConnectionOptions, renewedAt: LeaseThreadSetup['renewedAt']): Thread {
  const setup: LeaseThreadSetup = {
    connection,
    begin,
    commit,
    enterScope: {
      text: enterScopeByIndex.text,
      values: ['belfry_engine', '', statementTimeoutMs, idleTimeoutMs],
    },
    renew: renewSession.text,
    renewedAt,
  }
  const made = new Thread(threadFile, { workerData: setup })
  made.unref()
  return made
}

const threadFile = new URL(
  import.meta.url.endsWith('.ts') ? './lease-thread.ts' : './lease-thread.js',
  import.meta.url,
)
