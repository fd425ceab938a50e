/**
 * Lets runs through the gate as their limits allow (docs/decisions/0015-gate.md). Every process that
 * schedules or works has one; of a tenant one at a time is at it, which the transaction of a look sees to.
 *
 *   round: whose gate has something to be done ─► walks of changed limits, looks ─► again, until none has
 *
 * A round begins
 *   - with a hint: limits of a tenant have room or were changed, or something was put into a queue, while
 *     there are limits at all; shortly after it, so that what comes together is looked at together
 *   - when something comes due: the next token, a rest that is over
 *   - by itself: once a second while somebody waits behind the gate, else seldom. What is to be done stands
 *     in the database, so a hint that was lost costs no more than that
 * Every few seconds, while somebody waits, it also looks for what no event tells of, and counts who waits.
 * A tenant whose gate fails is reported and left alone for a while; the others are not held up by it.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Gate, GateLook } from '../ports/gate.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { createLoop } from './loop.ts'
import { createBackOff, type BackOff } from './back-off.ts'
import { hintOfShard } from './timer-hints.ts'
import { settledWithin } from './within.ts'

const gatherMs = 5
const heldPollMs = 1_000
const idlePollMs = 8_000
const tidyMs = 5_000
const mostCounted = 100_000
const stopWithinMs = 2_000
/** Looks at one tenant in a row; then the others have their turn. */
const looksInARow = 20
const leastWaitMs = 5
const busyMs = 20
/** A walk that was done so often, some two minutes, is told of; and again each time after as many. */
const manyWalks = 10

export interface GatekeeperOptions {
  readonly gate: Gate
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly hints: Hints
}

export interface Gatekeeper extends Service {
  /** Looks until nothing is to be done; answers how many runs were let in. */
  readonly runOnce: () => Promise<number>
  /** Runs that were held when it last looked for that, up to 100,000. */
  readonly stats: () => { readonly held: number }
}

interface State {
  readonly options: GatekeeperOptions
  /** Tenants whose gate has failed. */
  readonly failing: BackOff
  limited: boolean
  heldRuns: number
  tidiedMs: number
}

export function createGatekeeper(options: GatekeeperOptions): Gatekeeper {
  const { clock, hints, random, events, gate } = options
  const failing = createBackOff(clock, random)
  const state: State = { options, failing, limited: true, heldRuns: 0, tidiedMs: -Infinity }
  let gathering: Timer | undefined
  let unsubscribe: () => void = () => {}

  const loop = createLoop({
    name: 'gatekeeper',
    clock,
    random,
    events,
    async round(signal) {
      await workOff(state, signal)
      const { held, limited, nextMs, tenantIds, regateIds } = await gate.work()
      state.limited = limited || held
      if (!held) state.heldRuns = 0
      if (held && clock.monotonicMs() - state.tidiedMs >= tidyMs) {
        state.tidiedMs = clock.monotonicMs()
        state.heldRuns = await gate.countHeld(mostCounted)
        if (await gate.tidy()) return 0
      }
      // somebody else was at it, and may have passed by what came last
      if ([...tenantIds, ...regateIds].some((tenantId) => failing.isDue(tenantId))) return busyMs
      const pollMs = (held ? heldPollMs : idlePollMs) * (0.9 + random.next() / 5)
      return Math.max(leastWaitMs, Math.min(pollMs, nextMs ?? pollMs, failing.nextMs() ?? pollMs))
    },
  })

  function wakeSoon(): void {
    gathering ??= clock.setTimer(gatherMs, () => {
      gathering = undefined
      loop.wake()
    })
  }

  return {
    name: loop.name,
    runOnce: () => workOff(state),
    stats: () => ({ held: state.heldRuns }),
    async start() {
      unsubscribe = hints.subscribe(({ topic }) => {
        if (topic === 'gate' || (topic === 'ready' && state.limited)) wakeSoon()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      gathering?.cancel()
      gathering = undefined
      // a look that is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
  }
}

async function workOff(state: State, signal?: AbortSignal): Promise<number> {
  const { gate } = state.options
  let opened = 0
  for (;;) {
    const { tenantIds, regateIds, limited, held } = await gate.work()
    state.limited = limited || held
    const walking = new Set(regateIds)
    let more = false
    for (const tenantId of new Set([...regateIds, ...tenantIds])) {
      if (signal?.aborted === true) return opened
      if (!state.failing.isDue(tenantId)) continue
      try {
        const walk = walking.has(tenantId) ? await gate.regate(tenantId) : undefined
        if (walk?.more === false) tellOfRepeats(state.options, tenantId, walk.walks)
        const done = await lookAt(state.options, tenantId, signal)
        opened += done.opened
        more ||= done.more || walk?.more === true
        state.failing.succeeded(tenantId)
      } catch (error) {
        const retryInMs = state.failing.failed(tenantId)
        state.options.events.emit('role_failed', { role: 'gatekeeper', error, retryInMs })
      }
    }
    if (!more || signal?.aborted === true) return opened
  }
}

/** A run that was made by the limits of before may come to light until then. */
function tellOfRepeats({ events }: GatekeeperOptions, tenantId: string, walks: number): void {
  if (walks === 0 || walks % manyWalks !== 0) return
  const message =
    `Limits of tenant ${tenantId} were changed, and a transaction that was open then is not over; end it ` +
    '(pg_stat_activity, the oldest xact_start). Until then its runs are walked over again and again.'
  events.emit('role_failed', { role: 'gatekeeper', error: new Error(message), retryInMs: 0 })
}

async function lookAt(
  { gate, clock, events, hints }: GatekeeperOptions,
  tenantId: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly opened: number; readonly more: boolean }> {
  let opened = 0
  for (let looks = 0; looks < looksInARow && signal?.aborted !== true; looks++) {
    const startedMs = clock.monotonicMs()
    const look = await gate.look(tenantId)
    // who is at it sees what was to be done, or the next round does
    if (look === undefined) return { opened, more: false }
    opened += look.opened
    const { skipped, replaced } = look
    const durationMs = clock.monotonicMs() - startedMs
    if (look.opened + skipped + replaced > 0)
      events.emit('gate_passed', { tenantId, opened: look.opened, skipped, replaced, durationMs })
    tell(hints, look)
    if (!look.again) return { opened, more: false }
  }
  return { opened, more: true }
}

function tell(hints: Hints, look: GateLook): void {
  for (const queue of look.queues) hints.publish({ topic: 'ready', key: queue })
  for (const sessionId of look.sessionIds) hints.publish({ topic: 'cancel', key: sessionId })
  for (const shard of look.timerShards) hints.publish(hintOfShard(shard))
  if (look.skipped + look.replaced > 0) hints.publish({ topic: 'backfills', key: 'any' })
}
