/**
 * A session's lease as the process sees it: kept by a thread (heartbeat-thread.ts), watched here.
 *
 * 1. The lease is trusted for its length less a margin, from before the call that gave or renewed it. The
 *    margin leaves functions time to end before others may take their runs.
 * 2. A timer stands at the end of the trust; it asks the shared memory, so that a thread which renewed while
 *    this loop was blocked is believed. After a SIGSTOP both clocks have run on: the timer fires first.
 * 3. A thread that ends by itself is reported, and another takes its place; the lease goes on meanwhile.
 */
import { Worker as Thread } from 'node:worker_threads'
import type { FromHeartbeat, HeartbeatSetup, Renewed, ToHeartbeat } from './heartbeat-thread.ts'

export interface LeaseOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly leaseMs: number
  readonly heartbeatMs: number
  /** When the call that opened the session was sent: `process.hrtime.bigint()`. */
  readonly openedAt: bigint
  readonly onRenewed: (renewed: Renewed) => void
  /** Called once; the lease is over then. */
  readonly onLost: () => void
  readonly onTrouble: (what: string, error: unknown, retryInMs: number) => void
}

export interface Lease {
  readonly report: (progress: Omit<Extract<ToHeartbeat, { kind: 'progress' }>, 'kind'>) => void
  /** Ends the thread and the watch, without calling it lost. */
  readonly end: () => void
}

const respawnMs = 1_000

export function holdLease(options: LeaseOptions): Lease {
  const { leaseMs, onLost } = options
  const marginMs = Math.min(6_000, leaseMs / 5)
  const renewedAt = new BigInt64Array(new SharedArrayBuffer(8))
  Atomics.store(renewedAt, 0, options.openedAt)
  let over = false
  let thread = spawn()
  let watch = setTimeout(check, leaseMs - marginMs)
  let respawn: NodeJS.Timeout | undefined

  function end(): void {
    over = true
    clearTimeout(watch)
    clearTimeout(respawn)
    send({ kind: 'stop' })
  }

  function lose(): void {
    if (over) return
    end()
    onLost()
  }

  function check(): void {
    const agedMs = Number(process.hrtime.bigint() - Atomics.load(renewedAt, 0)) / 1e6
    const leftMs = leaseMs - marginMs - agedMs
    if (leftMs <= 0) lose()
    else watch = setTimeout(check, leftMs)
  }

  function send(message: ToHeartbeat): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread.postMessage(message)
  }

  function spawn(): Thread {
    const { url, headers, heartbeatMs } = options
    const setup: HeartbeatSetup = { url, headers, heartbeatMs, leaseMs, renewedAt }
    const made = new Thread(threadFile, { workerData: setup })
    made.unref()
    made.on('message', (message: FromHeartbeat) => {
      if (over) return
      if (message.kind === 'renewed') options.onRenewed(message)
      else if (message.kind === 'lost') lose()
      else options.onTrouble('heartbeat', new Error(message.message), message.retryInMs)
    })
    let cause: unknown
    made.on('error', (error: unknown) => {
      cause = error
    })
    made.on('exit', (code) => {
      if (over || made !== thread) return
      options.onTrouble('the heartbeat thread', cause ?? new Error(`it ended with code ${code}`), respawnMs)
      respawn = setTimeout(() => {
        thread = spawn()
      }, respawnMs)
    })
    return made
  }

  return { report: (progress) => send({ kind: 'progress', ...progress }), end }
}

const threadFile = new URL(
  import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js',
  import.meta.url,
)
