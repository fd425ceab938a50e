/**
 * A worker's lease on everything that it runs.
 *
 *   open ──► renewed each heartbeat ──► closed (stop)
 *    ▲              │ not alive, or no success until the trust ends
 *    └── new id ◄── lost: `onLost` aborts the handlers, at once
 *
 * 1. The lease is trusted from *before* the query that gave or renewed it, on the monotonic clock, for its length less a
 *    margin: a slow success never extends the trust, and the margin leaves handlers time to end before others take over.
 * 2. A timer stands at the end of the trust. After a SIGSTOP it is overdue and fires before anything else is believed.
 * 3. A lost session never comes back; the next has a new id. What the old one still sends, the epochs refuse.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { RunStore } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createLoop } from './loop.ts'

export interface WorkerSessionOptions {
  readonly store: Pick<RunStore, 'openSession' | 'renewSession' | 'closeSession'>
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
  readonly host: string
  readonly version: string
  readonly queues: readonly string[]
  readonly slots: number
  readonly leaseMs: number
  readonly heartbeatMs: number
  readonly marginMs: number
  readonly onOpened: (sessionId: string) => void
  readonly onLost: (sessionId: string) => void
  readonly onCancel: (runIds: readonly string[]) => void
}

export interface WorkerSession extends Service {
  /** The session under which runs may be claimed now; undefined while there is none. */
  current(): string | undefined
  /** The database said that this session has run out. */
  lapsed(sessionId: string): void
  /** Renews now rather than at the next heartbeat; brings cancels. */
  renewSoon(): void
}

export function createWorkerSession(options: WorkerSessionOptions): WorkerSession {
  const { store, clock, databaseClock, random, ids, events, leaseMs, marginMs } = options
  let held: { readonly id: string; trustedUntilMs: number } | undefined
  let expiry: Timer | undefined

  function lose(): void {
    const lost = held
    if (lost === undefined) return
    held = undefined
    expiry?.cancel()
    events.emit('session_lost', { sessionId: lost.id, role: 'worker' })
    options.onLost(lost.id)
    loop.wake()
  }

  function check(): void {
    if (held === undefined) return
    const leftMs = held.trustedUntilMs - clock.monotonicMs()
    if (leftMs <= 0) lose()
    else watch(leftMs)
  }

  function watch(leftMs: number): void {
    expiry?.cancel()
    expiry = clock.setTimer(leftMs, check)
  }

  async function open(): Promise<void> {
    const id = ids.uuidv7(databaseClock.nowMs())
    const { host, version, queues, slots } = options
    const sentMs = clock.monotonicMs()
    const { nowMs } = await store.openSession({ id, host, version, queues, slots }, leaseMs)
    databaseClock.observe(nowMs, sentMs)
    held = { id, trustedUntilMs: sentMs + leaseMs - marginMs }
    check()
    if (held === undefined) return
    events.emit('session_started', { sessionId: id, role: 'worker' })
    options.onOpened(id)
  }

  async function renew(session: { readonly id: string; trustedUntilMs: number }): Promise<void> {
    const sentMs = clock.monotonicMs()
    const { alive, cancelRunIds, nowMs } = await store.renewSession(session.id, leaseMs)
    databaseClock.observe(nowMs, sentMs)
    if (held !== session) return
    if (!alive) {
      lose()
      return
    }
    session.trustedUntilMs = sentMs + leaseMs - marginMs
    check()
    if (cancelRunIds.length > 0) options.onCancel(cancelRunIds)
  }

  const loop = createLoop({
    name: 'session',
    clock,
    random,
    events,
    longestRetryMs: Math.min(10_000, leaseMs / 6),
    async round() {
      if (held === undefined) await open()
      else await renew(held)
      return held === undefined ? 0 : options.heartbeatMs * (0.9 + random.next() / 10)
    },
    async onStop() {
      expiry?.cancel()
      const last = held
      held = undefined
      if (last !== undefined) await store.closeSession(last.id).catch(reportClosing)
    },
  })

  /** Then it runs out by itself. */
  function reportClosing(error: unknown): void {
    events.emit('role_failed', { role: 'session', error, retryInMs: 0 })
  }

  return {
    name: 'session',
    start: loop.start,
    stop: loop.stop,
    current() {
      if (held !== undefined && clock.monotonicMs() >= held.trustedUntilMs) lose()
      return held?.id
    },
    lapsed(sessionId) {
      if (held?.id === sessionId) lose()
    },
    renewSoon: loop.wake,
  }
}
