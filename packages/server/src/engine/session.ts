/**
 * A worker's lease on everything that it runs.
 *
 *   open ──► renewed each heartbeat ──► closed (stop)
 *    ▲              │ not alive, or no success until the trust ends
 *    └── new id ◄── lost: `onLost` aborts the handlers, at once
 *
 * 1. The lease is trusted from *before* the query that gave or renewed it, on the monotonic clock, for its
 *    length less a margin: a slow success never extends the trust, and the margin leaves handlers time to end
 *    before others take over.
 * 2. A timer stands at the end of the trust. After a SIGSTOP it is overdue and fires before anything else is
 *    believed.
 * 3. A run may end without its worker (its schedule needed the place): a renewal tells what the session still
 *    holds, and the handlers of what it does not are aborted.
 * 4. A lost session never comes back; the next has a new id. What the old one still sends, the epochs refuse.
 */
import { BelfryError } from '@belfry/contract'
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Ids } from '../ports/ids.ts'
import type { LeaseKeeper } from '../ports/lease-keeper.ts'
import type { Random } from '../ports/random.ts'
import type { RunStore, SessionOwner } from '../ports/run-store.ts'
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
  readonly owner?: SessionOwner | undefined
  readonly leaseMs: number
  readonly heartbeatMs: number
  readonly marginMs: number
  /** Renews besides, from where a blocked event loop cannot keep it from doing so. */
  readonly keeper?: LeaseKeeper | undefined
  readonly onOpened: (sessionId: string) => void
  readonly onLost: (sessionId: string) => void
  readonly onCancel: (runIds: readonly string[]) => void
  /** Runs that this process believes to hold under the session. */
  readonly holding: (sessionId: string) => readonly string[]
  /** Of those that were held before a renewal: the session does not hold them any more. */
  readonly onGone: (runIds: readonly string[]) => void
}

export interface WorkerSession extends Service {
  /** The session under which runs may be claimed now; undefined while there is none. */
  readonly current: () => string | undefined
  /** The database said that this session has run out. */
  readonly lapsed: (sessionId: string) => void
  /** Renews now rather than at the next heartbeat; brings cancels, and what was ended elsewhere. */
  readonly renewSoon: () => void
}

export function createWorkerSession(options: WorkerSessionOptions): WorkerSession {
  const { store, clock, databaseClock, random, ids, events, leaseMs, marginMs } = options
  checkLease(options)

  function reportLoss(sessionId: string): void {
    options.keeper?.drop()
    events.emit('session_lost', { sessionId, role: 'worker' })
    options.onLost(sessionId)
    loop.wake()
  }
  const keptUntilMs = (sessionId: string): number =>
    (options.keeper?.renewedAtMs(sessionId) ?? -Infinity) + leaseMs - marginMs
  const trust = createTrust(clock, reportLoss, keptUntilMs)

  async function open(): Promise<void> {
    const id = ids.uuidv7(databaseClock.nowMs())
    const { host, version, queues, slots, owner } = options
    const sentMs = clock.monotonicMs()
    const { nowMs } = await store.openSession({ id, host, version, queues, slots, owner }, leaseMs)
    databaseClock.observe(nowMs, sentMs)
    events.emit('session_started', { sessionId: id, role: 'worker' })
    options.keeper?.hold(id, leaseMs, (error, retryInMs) => {
      events.emit('role_failed', { role: 'lease thread', error, retryInMs })
    })
    trust.hold(id, sentMs + leaseMs - marginMs)
    if (trust.current() === id) options.onOpened(id)
  }

  async function renew(id: string): Promise<void> {
    const sentMs = clock.monotonicMs()
    const holding = options.holding(id)
    const { alive, heldRunIds, cancelRunIds, nowMs } = await store.renewSession(id, leaseMs)
    databaseClock.observe(nowMs, sentMs)
    if (trust.current() !== id) return
    if (alive) trust.hold(id, sentMs + leaseMs - marginMs)
    else trust.lose(id)
    if (!alive) return
    if (cancelRunIds.length > 0) options.onCancel(cancelRunIds)
    const held = new Set(heldRunIds)
    const gone = holding.filter((runId) => !held.has(runId))
    if (gone.length > 0) options.onGone(gone)
  }

  const loop = createLoop({
    name: 'session',
    clock,
    random,
    events,
    longestRetryMs: Math.min(10_000, leaseMs / 6),
    async round() {
      const id = trust.current()
      await (id === undefined ? open() : renew(id))
      return trust.current() === undefined ? 0 : options.heartbeatMs * (0.9 + random.next() / 10)
    },
    async onStop() {
      const last = trust.drop()
      options.keeper?.drop()
      if (last === undefined) return
      await store.closeSession(last).catch((error: unknown) => {
        // then it runs out by itself
        events.emit('role_failed', { role: 'session', error, retryInMs: 0 })
      })
    },
  })

  return { ...loop, current: trust.current, lapsed: trust.lose, renewSoon: () => loop.wake() }
}

function checkLease({ leaseMs, heartbeatMs, marginMs }: WorkerSessionOptions): void {
  if (heartbeatMs + marginMs < leaseMs) return
  throw new BelfryError(
    'invalid_config',
    `A lease of ${leaseMs} ms is too short for a heartbeat of ${heartbeatMs} ms and a margin of ` +
      `${marginMs} ms; make it longer than both together.`,
  )
}

interface Trust {
  /** Trusts the session until then (local monotonic time), or for longer than before. */
  readonly hold: (id: string, untilMs: number) => void
  readonly current: () => string | undefined
  readonly lose: (id: string) => void
  /** Ends it without calling it lost. */
  readonly drop: () => string | undefined
}

/** Which session is trusted, and a timer at the end of the trust. Also asking after that end loses it. */
function createTrust(clock: Clock, onLost: (id: string) => void, keptUntilMs: (id: string) => number): Trust {
  let held: { readonly id: string; readonly untilMs: number } | undefined
  let expiry: Timer | undefined

  const untilMs = (it: { readonly id: string; readonly untilMs: number }): number =>
    Math.max(it.untilMs, keptUntilMs(it.id))

  function drop(): string | undefined {
    const last = held?.id
    held = undefined
    expiry?.cancel()
    return last
  }

  function lose(id: string): void {
    if (held?.id !== id) return
    drop()
    onLost(id)
  }

  function check(): void {
    if (held === undefined) return
    const leftMs = untilMs(held) - clock.monotonicMs()
    expiry?.cancel()
    if (leftMs > 0) expiry = clock.setTimer(leftMs, check)
    else lose(held.id)
  }

  return {
    hold(id, untilMs) {
      held = { id, untilMs }
      check()
    },
    current() {
      if (held !== undefined && clock.monotonicMs() >= untilMs(held)) lose(held.id)
      return held?.id
    },
    lose,
    drop,
  }
}
