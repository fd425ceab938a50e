/**
 * A session kept alive from a thread (lease-thread.ts): what it renewed is read from shared memory, so that
 * it counts as soon as a blocked event loop is free again. A thread that ends by itself is made again with
 * the next session; until then the worker's own heartbeats keep the lease.
 */
import { Worker as Thread } from 'node:worker_threads'
import type { Clock } from '../ports/clock.ts'
import type { LeaseKeeper } from '../ports/lease-keeper.ts'
import type { LeaseThreadSetup, ToLeaseThread } from './lease-thread.ts'
import type { ConnectionOptions } from './pool.ts'
import { renewSession } from './statements/sessions.ts'
import { begin, commit, enterScopeByIndex } from './statements/transaction.ts'

const statementTimeoutMs = '5000'
const idleTimeoutMs = '10000'

export function createLeaseKeeper(options: { connection: ConnectionOptions; clock: Clock }): LeaseKeeper {
  const { connection, clock } = options
  const renewedAt = new BigInt64Array(new SharedArrayBuffer(8))
  let heldId: string | undefined
  let thread: Thread | undefined

  function spawn(): Thread {
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
    const forget = (): void => {
      if (thread === made) thread = undefined
    }
    made.on('error', forget).on('exit', forget)
    return made
  }

  function tell(message: ToLeaseThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread?.postMessage(message)
  }

  return {
    hold(sessionId, leaseMs) {
      heldId = sessionId
      Atomics.store(renewedAt, 0, 0n)
      thread ??= spawn()
      tell({ kind: 'hold', sessionId, leaseMs })
    },
    drop() {
      heldId = undefined
      tell({ kind: 'drop' })
    },
    renewedAtMs(sessionId) {
      const atNs = Atomics.load(renewedAt, 0)
      if (sessionId !== heldId || atNs === 0n) return undefined
      return clock.monotonicMs() - Number(process.hrtime.bigint() - atNs) / 1e6
    },
    async close() {
      tell({ kind: 'stop' })
    },
  }
}

const threadFile = new URL(
  import.meta.url.endsWith('.ts') ? './lease-thread.ts' : './lease-thread.js',
  import.meta.url,
)
