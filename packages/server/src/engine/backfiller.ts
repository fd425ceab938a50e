/**
 * Works off backfills: of the schedules whose shards this process holds, so that the work is spread, while
 * correctness rests on the transaction of a step alone (backfill-step.ts).
 *
 *   round: which backfills have something to do (one look, whatever their number) ─► a step of each ─► again,
 *          until a look finds none
 *
 * A backfill that has many times to pass over looks at more of them with each step, and the others have their
 * turn in between. A round begins with a hint (a backfill was made, a run of one ended), shortly after it so
 * that ends that come together are taken in together, and by itself: every ten seconds while a backfill is
 * open, once a minute while none is. One that fails by itself rests for a growing time and holds up no other.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { Backfilling, DueBackfill, DueBackfills } from '../ports/backfilling.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Firing } from '../ports/firing.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { HeldShard } from '../ports/leadership.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { ZoneSource } from '../ports/zones.ts'
import { createBackfillPlans } from './backfill-plans.ts'
import type { StepParts, StepTaken } from './backfill-step.ts'
import { takeStep } from './backfill-step.ts'
import type { Elector } from './elector.ts'
import type { FairTags } from './fair-tags.ts'
import { isFaultOfRows } from './isolate-fault.ts'
import { createLoop } from './loop.ts'
import { settledWithin } from './within.ts'

const gatherMs = 20
const stopWithinMs = 2_000
const openPollMs = 10_000
const idlePollMs = 60_000
/** Backfills in one look. */
const pageSize = 200
/** Planned times that a step looks at: at first, and at most. */
const firstLook = 16
const longestLook = 500
/** How often a step is begun again because its schedule was changed since it was read. */
const mostStale = 3
const firstRestMs = 1_000
const longestRestMs = 60_000
const maxResting = 1_000
const noneDue: DueBackfills = { due: [], open: 0 }

export interface BackfillerOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly elector: Pick<Elector, 'heldShards' | 'subscribe'>
  readonly backfilling: Backfilling
  readonly firing: Pick<Firing, 'plans'>
  readonly zones: ZoneSource
  readonly ids: Ids
  readonly hints: Hints
  readonly tags: Pick<FairTags, 'ready' | 'next'>
  /** Days of history that are kept. Default 30. */
  readonly retentionDays?: number
}

export interface Backfiller extends Service {
  /** Steps until nothing is to be done; answers how many runs were started. */
  readonly runOnce: () => Promise<number>
  /** For metrics: backfills of the held shards that are not over, as of the last look. */
  readonly stats: () => { readonly open: number }
}

interface Rest {
  readonly untilMs: number
  readonly times: number
}

interface State {
  readonly options: BackfillerOptions
  readonly parts: StepParts
  readonly resting: Map<string, Rest>
  open: number
}

export function createBackfiller(options: BackfillerOptions): Backfiller {
  const { clock, elector, hints, random } = options
  const { backfilling, firing, zones, ids, tags, retentionDays = 30 } = options
  const parts = {
    backfilling,
    plans: createBackfillPlans({ clock, firing, zones }),
    ids,
    tags,
    retentionDays,
  }
  const state: State = { options, parts, resting: new Map(), open: 0 }
  const loop = createLoop({
    name: 'backfiller',
    clock,
    random,
    events: options.events,
    async round(signal) {
      await workOff(state, signal)
      return (state.open > 0 ? openPollMs : idlePollMs) * (0.9 + random.next() / 5)
    },
  })
  let gathering: Timer | undefined
  let adopted: readonly HeldShard[] = []
  let unsubscribe: readonly (() => void)[] = []

  function wakeSoon(): void {
    gathering ??= clock.setTimer(gatherMs, () => {
      gathering = undefined
      loop.wake()
    })
  }

  function adoptShards(): void {
    const held = elector.heldShards()
    const known = new Set(adopted.map(({ shard }) => shard))
    adopted = held
    if (held.some(({ shard }) => !known.has(shard))) wakeSoon()
  }

  return {
    name: loop.name,
    runOnce: () => workOff(state),
    stats: () => ({ open: state.open }),
    async start() {
      unsubscribe = [
        elector.subscribe(adoptShards),
        hints.subscribe((hint) => {
          if (hint.topic !== 'backfills') return
          if (hint.key === 'any' || elector.heldShards().some(({ shard }) => String(shard) === hint.key))
            wakeSoon()
        }),
      ]
      await loop.start()
    },
    async stop() {
      for (const end of unsubscribe) end()
      gathering?.cancel()
      gathering = undefined
      // a step that is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
  }
}

async function workOff(state: State, signal?: AbortSignal): Promise<number> {
  const { options, resting } = state
  const looks = new Map<string, number>()
  let started = 0
  for (;;) {
    const shards = options.elector.heldShards().map(({ shard }) => shard)
    const nowMs = options.clock.monotonicMs()
    const atRest = [...resting].flatMap(([id, { untilMs }]) => (untilMs > nowMs ? [id] : []))
    const { due, open } =
      shards.length === 0 ? noneDue : await options.backfilling.due(shards, atRest, pageSize)
    state.open = open
    if (due.length === 0) return started
    for (const each of due) {
      if (signal?.aborted === true) return started
      started += await stepOf(state, each, looks)
    }
  }
}

/** One step of one backfill; answers how many runs it started. */
async function stepOf(state: State, due: DueBackfill, looks: Map<string, number>): Promise<number> {
  const { options, resting } = state
  const startedMs = options.clock.monotonicMs()
  const look = looks.get(due.id) ?? firstLook
  try {
    for (let stale = 0; stale <= mostStale; stale++) {
      const outcome = await takeStep(state.parts, due, look)
      if (outcome === 'stale') continue
      resting.delete(due.id)
      if (outcome === 'gone') return 0
      looks.set(due.id, outcome.foundNothing ? Math.min(longestLook, 2 * look) : firstLook)
      tell(options, due, outcome, options.clock.monotonicMs() - startedMs)
      return outcome.started
    }
    rest(state, due, new Error('its schedule is changed again and again'))
  } catch (error) {
    if (!isFaultOfRows(error)) throw error
    rest(state, due, error)
  }
  return 0
}

function rest({ options, resting }: State, { id }: DueBackfill, cause: unknown): void {
  const times = (resting.get(id)?.times ?? 0) + 1
  const retryInMs = Math.min(longestRestMs, firstRestMs * 2 ** Math.min(times - 1, 10))
  resting.delete(id)
  resting.set(id, { untilMs: options.clock.monotonicMs() + retryInMs, times })
  const oldest = resting.size > maxResting ? resting.keys().next().value : undefined
  if (oldest !== undefined) resting.delete(oldest)
  const why = cause instanceof Error ? cause.message : String(cause)
  const error = new Error(`The backfill ${id} cannot go on: ${why}`, { cause })
  options.events.emit('role_failed', { role: 'backfiller', error, retryInMs })
}

/** Events of what was committed, and a hint to workers. */
function tell(
  { events, hints }: BackfillerOptions,
  { id: backfillId, scheduleId }: DueBackfill,
  step: StepTaken,
  durationMs: number,
): void {
  const { tenantId, queue, started, skipped, ended, state } = step
  events.emit('backfill_stepped', { backfillId, scheduleId, tenantId, started, skipped, ended, durationMs })
  if (started > 0 && queue === '') hints.publish({ topic: 'workflows', key: 'any' })
  else if (started > 0) {
    events.emit('runs_enqueued', { count: started, queue, source: 'backfill' })
    hints.publish({ topic: 'ready', key: queue })
  }
  if (step.isOver && (state === 'completed' || state === 'canceled'))
    events.emit('backfill_ended', { backfillId, scheduleId, tenantId, state })
}
