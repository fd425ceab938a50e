/**
 * Fires what is due in the shards that this process holds.
 *
 *   elector ──held shards──► reader ──timers──► lanes ──due──► firer
 *                              ▲                  ▲              │
 *                            hints                └──next time───┘
 *
 * A round: 1. take in gained and lost shards; 2. fire a batch of what is due now, then one of what is late,
 * so that a backlog never keeps waiting what is on time, and is worked off all the same; 3. read one page
 * where something has to be read; 4. decide coming fires ahead; again while there is work; then sleep until
 * the first due instant.
 *
 * Correctness rests on the firing transaction alone: a second scheduler that believes to hold the same shard,
 * a timer read long ago, a hint that was lost or doubled only cost work or time. Nothing that counts is kept
 * in memory.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Firing } from '../ports/firing.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { HeldShard } from '../ports/leadership.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { TimerIndex } from '../ports/timer-index.ts'
import type { ZoneSource } from '../ports/zones.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Elector } from './elector.ts'
import type { FairTags } from './fair-tags.ts'
import { createFirePreparer, type FirePreparer, type HeapEntry } from './fire-preparer.ts'
import { createFirer, type Firer, type FireOutcome } from './firer.ts'
import { createLoop } from './loop.ts'
import { createPlanCache } from './plan-cache.ts'
import { createSetAside, type SetAside } from './set-aside.ts'
import { createTimerLanes, type TimerLanes } from './timer-lanes.ts'
import { createTimerReader, type TimerReader } from './timer-reader.ts'

export interface SchedulerOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly databaseClock: DatabaseClock
  readonly elector: Pick<Elector, 'nodeId' | 'heldShards' | 'subscribe' | 'wake'>
  readonly timers: TimerIndex
  readonly firing: Firing
  readonly zones: ZoneSource
  readonly ids: Ids
  readonly hints: Hints
  /** The tags of this process, shared with all that enqueue runs. */
  readonly tags: FairTags
  /** How far to read ahead. Default 60,000. */
  readonly horizonMs?: number
  /** Timers held in memory at most. Default 50,000. */
  readonly maxTimers?: number
  /** Timers fired in one transaction at most. Default 500. */
  readonly maxBatch?: number
}

export interface Scheduler extends Service {
  /** For metrics: timers in memory, and when the first of them is due. */
  stats(): { readonly timers: number; readonly shards: number; readonly firstDueMs: number }
}

const maxPlans = 20_000
/** Occurrences in one transaction; a schedule has many of them only where it catches up. */
const mostOnTime = 2_000
/** What is on time waits for a transaction of late ones at most, so those are short. */
const mostLate = 500

export function createScheduler(options: SchedulerOptions): Scheduler {
  const state = createState(options)
  const loop = createLoop({
    name: 'scheduler',
    clock: options.clock,
    random: options.random,
    events: options.events,
    longestRetryMs: 2_000,
    async round(signal) {
      let worked = true
      while (worked && !signal.aborted) worked = await step(state)
      return untilWork(state)
    },
  })
  let unsubscribe: readonly (() => void)[] = []
  return {
    name: loop.name,
    stats: () => ({
      timers: state.lanes.size,
      shards: state.terms.size,
      firstDueMs: state.lanes.firstDueMs(),
    }),
    async start() {
      unsubscribe = [
        options.elector.subscribe(() => loop.wake()),
        options.hints.subscribe((hint) => {
          if (hint.topic !== 'timers') return
          options.timers.changed(Number(hint.key))
          state.reader.hint(Number(hint.key))
          loop.wake()
        }),
      ]
      await loop.start()
    },
    async stop() {
      for (const end of unsubscribe) end()
      await loop.stop()
    },
  }
}

interface State {
  readonly options: SchedulerOptions
  readonly lanes: TimerLanes<HeapEntry>
  readonly setAside: SetAside
  readonly reader: TimerReader
  readonly preparer: FirePreparer
  readonly firer: Firer
  readonly horizonMs: number
  readonly maxBatch: number
  /** Read, but not yet decided. */
  readonly undecided: HeapEntry[]
  /** What the elector said last, by identity, and the terms that follow from it. */
  adopted: readonly HeldShard[]
  terms: Map<number, number>
}

function createState(options: SchedulerOptions): State {
  const { clock, databaseClock, events, firing, zones, hints, ids, tags, elector } = options
  const { horizonMs = 60_000, maxTimers = 50_000, maxBatch = 500 } = options
  const lanes = createTimerLanes<HeapEntry>(maxTimers)
  const setAside = createSetAside(clock)
  const preparer = createFirePreparer(createPlanCache({ clock, firing, zones, maxPlans }))
  const undecided: HeapEntry[] = []
  const reader = createTimerReader<HeapEntry>({
    clock,
    databaseClock,
    index: options.timers,
    lanes,
    horizonMs,
    admit: (timer) => (setAside.holds(timer) ? undefined : { timer }),
    added: (entry) => {
      if (entry.timer.kind === 'schedule') undecided.push(entry)
    },
  })
  const { nodeId } = elector
  const firer = createFirer({
    clock,
    databaseClock,
    events,
    firing,
    hints,
    ids,
    nodeId,
    preparer,
    setAside,
    tags,
  })
  const parts = { options, lanes, setAside, reader, preparer, firer, horizonMs, maxBatch, undecided }
  return { ...parts, adopted: [], terms: new Map() }
}

/** Does the most urgent piece of work; false when there is none. */
async function step(state: State): Promise<boolean> {
  adoptShards(state)
  readAgain(state, state.setAside.takeRested())
  const fired = await fireDue(state)
  if (state.reader.waitMs() === 0) {
    await state.reader.readPage()
    return true
  }
  return (await decideAhead(state)) || fired
}

function untilWork({ options, lanes, reader, setAside, horizonMs }: State): number {
  const dueMs = lanes.firstDueMs() - options.databaseClock.nowMs()
  return Math.max(0, Math.min(dueMs, reader.waitMs(), setAside.waitMs(), horizonMs))
}

/** Takes in what the elector says: lost shards leave the heap at once, gained ones are read. */
function adoptShards(state: State): void {
  const held = state.options.elector.heldShards()
  if (held === state.adopted) return
  const before = state.terms
  state.adopted = held
  state.terms = new Map(held.map(({ shard, term }) => [shard, term]))
  const gained = held.filter(({ shard, term }) => before.get(shard) !== term).map(({ shard }) => shard)
  restrict(state)
  state.options.timers.gained(gained)
  state.reader.request(gained)
}

function restrict({ lanes, reader, terms }: State): void {
  lanes.retain(({ timer }) => terms.has(timer.shard))
  reader.restrict(new Set(terms.keys()))
}

async function fireDue(state: State): Promise<boolean> {
  const { lanes, options, maxBatch } = state
  const now = (): number => options.databaseClock.nowMs()
  const onTime = await fireSome(state, lanes.popOnTime(now(), maxBatch), mostOnTime)
  const late = await fireSome(state, lanes.popLate(now(), maxBatch), mostLate)
  return onTime || late
}

async function fireSome(state: State, due: readonly HeapEntry[], mostOccurrences: number): Promise<boolean> {
  if (due.length === 0) return false
  const { timers } = state.options
  await timers.take(due.map(({ timer }) => timer))
  const outcome = await state.firer.fire(due, state.terms, mostOccurrences)
  const again = new Set(outcome.again.map(({ timer }) => timer))
  const gone = due.flatMap(({ timer }) => (again.has(timer) ? [] : [timer]))
  // who holds their shard by now has read the index while they were taken out of it
  const lost = gone.filter(({ shard }) => outcome.lostShards.has(shard))
  await timers.settle(gone, [...outcome.moved, ...lost])
  for (const shard of new Set(lost.map((timer) => timer.shard)))
    state.options.hints.publish({ topic: 'timers', key: String(shard) })
  settle(state, outcome)
  return true
}

function settle(state: State, outcome: FireOutcome): void {
  const { options, lanes, reader } = state
  for (const entry of outcome.again) lanes.push(entry)
  const untilMs = Math.min(options.databaseClock.nowMs() + state.horizonMs, reader.ceilingMs)
  for (const timer of outcome.moved) {
    if (timer.dueAtMs >= untilMs) continue
    const ready = state.preparer.onTime(timer)
    lanes.push(ready === undefined ? { timer } : { timer, ready })
  }
  readAgain(state, outcome.changedShards)
  if (outcome.lostShards.size > 0) {
    for (const shard of outcome.lostShards) state.terms.delete(shard)
    restrict(state)
    options.elector.wake()
  }
  if (outcome.failure !== undefined) throw outcome.failure.error
}

/** Reads shards of which some timers are not as they were thought to be, however late those are. */
function readAgain({ options, reader }: State, shards: Iterable<number>): void {
  const these = [...shards]
  for (const shard of these) options.timers.changed(shard, Number.NEGATIVE_INFINITY)
  reader.request(these)
}

/** Decides some of the coming fires while there is time. */
async function decideAhead({ preparer, maxBatch, undecided, terms }: State): Promise<boolean> {
  if (undecided.length === 0) return false
  const some = undecided
    .splice(0, maxBatch)
    .filter(({ ready, timer }) => ready === undefined && terms.has(timer.shard))
  await preparer.load(some.flatMap(({ timer }) => (timer.kind === 'schedule' ? [timer] : [])))
  for (const entry of some) {
    const ready = entry.timer.kind === 'schedule' ? preparer.onTime(entry.timer) : undefined
    if (ready !== undefined) entry.ready = ready
  }
  return true
}
