/**
 * Moves workflow runs on: takes in what happened to them and starts what follows.
 *
 *   round: the bus hands over workflow runs that have something to do (others pass over them), with their
 *          events ─► decide (workflow-step.ts) ─► write states, runs, cancels: one transaction ─► hints ─►
 *          again, until nothing is left
 *
 * Any number of resolvers may run: a workflow run is moved on by one at a time, and what one has taken in is
 * gone for the others. A round begins when something comes (a run of a task ended, a workflow run was asked
 * for), and by itself: each second while workflow runs came up lately, each ten seconds otherwise. Every
 * minute it looks for what nobody told of.
 *
 * A workflow run that cannot be moved on holds up no other: a round that fails by what is in it is done again
 * with one workflow run at a time, and the one at fault rests for a growing time.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventBus } from '../ports/event-bus.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { TasksMoved, type WorkflowBacklog, type WorkflowResolving } from '../ports/workflow-runs.ts'
import { createBackOff, type BackOff } from './back-off.ts'
import { backfillHint } from './backfill-hints.ts'
import type { FairTags } from './fair-tags.ts'
import { isFaultOfRows } from './isolate-fault.ts'
import { createLoop } from './loop.ts'
import {
  mostEvents,
  mostRuns,
  resolveRound,
  type RoundOutcome,
  type RoundParts,
  UnknownLanes,
} from './resolver-round.ts'
import { settledWithin } from './within.ts'
import { createWorkflowPlans } from './workflow-plans.ts'
import { createDueWaits } from './workflow-timers.ts'
import { pauseFailed } from './workflow-turns.ts'

const busyPollMs = 1_000
const idlePollMs = 10_000
const busyForMs = 30_000
const mendMs = 60_000
const busyCountMs = 5_000
const stopWithinMs = 2_000
const maxLanes = 1_000
/** Rounds that are done anew at once, because runs to be canceled moved on meanwhile. */
const mostMoves = 5

export interface ResolverOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly bus: EventBus
  readonly resolving: Pick<
    WorkflowResolving,
    'mend' | 'backlog' | 'endDue' | 'nextDueMs' | 'pauseFailing' | 'doubts'
  >
  readonly ids: Ids
  readonly hints: Hints
  readonly tags: Pick<FairTags, 'ready' | 'next'>
}

export interface Resolver extends Service {
  /** Rounds until nothing is to be done; answers how many workflow runs were moved on. */
  readonly runOnce: () => Promise<number>
  /** As of its last look: some seconds ago while it has something to do, else a minute at most. */
  readonly stats: () => WorkflowBacklog
}

/** What a round did, to be made known after its commit. */
type Round = RoundOutcome & { readonly durationMs: number }

interface State {
  readonly options: ResolverOptions
  readonly parts: RoundParts
  readonly lanes: Set<string>
  /** Workflow runs that could not be moved on, and when each is tried again. */
  readonly failing: BackOff
  readonly failingIds: Set<string>
  /** So many rounds are for one workflow run each: one of those that came together is at fault. */
  singleRounds: number
}

export function createResolver(options: ResolverOptions): Resolver {
  const { clock, random, bus, resolving } = options
  const timers = createDueWaits(clock, resolving)
  const state = freshState(options, timers)
  let backlog: WorkflowBacklog = { events: 0, oldestMs: 0, alive: 0 }
  let busyUntilMs = 0
  let mendAtMs = 0
  let countAtMs = 0
  let unsubscribe: (() => void) | undefined
  const loop = createLoop({
    name: 'resolver',
    clock,
    random,
    events: options.events,
    async round(signal) {
      if (clock.monotonicMs() >= mendAtMs) {
        const count = await resolving.mend()
        if (count > 0) options.events.emit('workflow_events_found', { count })
        mendAtMs = clock.monotonicMs() + mendMs
      }
      await timers.end()
      const moved = await workOff(state, ({ more }) => more && !signal.aborted)
      if (moved > 0) {
        busyUntilMs = clock.monotonicMs() + busyForMs
        countAtMs = Math.min(countAtMs, clock.monotonicMs() + busyCountMs)
      }
      if (clock.monotonicMs() >= countAtMs) {
        backlog = await resolving.backlog()
        // what others have now comes back if they die
        if (backlog.events > 0) busyUntilMs = clock.monotonicMs() + busyForMs
        const isBusy = clock.monotonicMs() < busyUntilMs
        countAtMs = clock.monotonicMs() + (isBusy ? busyCountMs : mendMs)
        // or it is of what is over, and others wait behind it
        if (backlog.events > 0 && moved === 0) mendAtMs = Math.min(mendAtMs, countAtMs)
      }
      const pollMs = clock.monotonicMs() < busyUntilMs ? busyPollMs : idlePollMs
      const jitteredMs = pollMs * (0.9 + random.next() / 5)
      return Math.min(jitteredMs, state.failing.nextMs() ?? pollMs, timers.remainingMs())
    },
  })
  return {
    name: loop.name,
    async runOnce() {
      await timers.end('now')
      return workOff(state, ({ moved, more }) => moved > 0 || more)
    },
    stats: () => backlog,
    async start() {
      unsubscribe = bus.onArrival(() => loop.wake())
      await loop.start()
    },
    async stop() {
      unsubscribe?.()
      // a round that is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
  }
}

function freshState(options: ResolverOptions, timers: RoundParts['timers']): State {
  const { clock, random, ids, tags, resolving } = options
  const lanes = new Set<string>()
  return {
    options,
    parts: { ids, tags, plans: createWorkflowPlans(resolving.doubts), timers, lanes },
    lanes,
    failing: createBackOff(clock, random),
    failingIds: new Set(),
    singleRounds: 0,
  }
}

async function workOff(state: State, goesOn: (round: Round) => boolean): Promise<number> {
  for (let moved = 0; ; ) {
    const round = await roundOf(state)
    moved += round.moved
    tell(state.options, round)
    await pauseFailed(state.options, round.aftermath)
    if (!goesOn(round)) return moved
  }
}

async function roundOf(state: State): Promise<Round> {
  const { bus, clock, tags } = state.options
  let moves = 0
  for (;;) {
    const without = [...state.failingIds].filter((id) => !state.failing.isDue(id))
    const runs = state.singleRounds > 0 ? 1 : mostRuns
    let ids: readonly string[] = []
    try {
      await tags.ready(state.lanes)
      const startedMs = clock.monotonicMs()
      const round = await bus.deliver({ runs, events: mostEvents, without }, (due, tx) => {
        ids = due.runs.map(({ id }) => id)
        return resolveRound(state.parts, due, tx)
      })
      forgive(state, ids, without)
      const durationMs = clock.monotonicMs() - startedMs
      const more = round.more || (state.singleRounds > 0 && round.moved > 0)
      return { ...round, more, durationMs, waitsMs: round.waitsMs.map((waitedMs) => waitedMs + durationMs) }
    } catch (error) {
      if (error instanceof UnknownLanes) {
        if (state.lanes.size > maxLanes) state.lanes.clear()
        for (const lane of error.lanes) state.lanes.add(lane)
      } else if (!(error instanceof TasksMoved && ++moves < mostMoves) && !blame(state, ids, error))
        throw error
    }
  }
}

/** False where the error is no fault of what the round was to move on. */
function blame(state: State, ids: readonly string[], error: unknown): boolean {
  const [id] = ids
  if (id === undefined || !(isFaultOfRows(error) || error instanceof TasksMoved)) return false
  state.singleRounds = ids.length > 1 ? ids.length : Math.max(0, state.singleRounds - 1)
  if (ids.length > 1) return true
  state.failingIds.add(id)
  const message = `The workflow run ${id} cannot be moved on; cancel it, or look at the cause. Others go on.`
  state.options.events.emit('role_failed', {
    role: 'resolver',
    error: new Error(message, { cause: error }),
    retryInMs: state.failing.failed(id),
  })
  return true
}

/** Those that rested and did not fail again: they were moved on, here or by another, or are over. */
function forgive(state: State, ids: readonly string[], resting: readonly string[]): void {
  const single = state.singleRounds > 0
  state.singleRounds = ids.length === 0 ? 0 : Math.max(0, state.singleRounds - 1)
  if (single || state.failingIds.size === resting.length) return
  for (const id of state.failingIds) {
    if (resting.includes(id)) continue
    state.failingIds.delete(id)
    state.failing.succeeded(id)
  }
}

/** A hint to workers, of what was committed. */
function tell({ events, hints }: ResolverOptions, round: Round): void {
  const { moved, startedByQueue, sessions, endedByState, waitsMs, durationMs } = round
  if (moved > 0)
    events.emit('workflows_moved', { moved, ended: Object.fromEntries(endedByState), waitsMs, durationMs })
  for (const [queue, count] of startedByQueue) {
    events.emit('runs_enqueued', { count, queue, source: 'workflow' })
    hints.publish({ topic: 'ready', key: queue })
  }
  for (const session of sessions) hints.publish({ topic: 'cancel', key: session })
  for (const scheduleId of round.aftermath.backfilled) hints.publish(backfillHint(scheduleId))
}
