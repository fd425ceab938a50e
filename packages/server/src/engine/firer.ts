/**
 * Fires a batch of due timers and releases due runs, and sorts out what became of each. Knows nothing of
 * lanes and waiting; the scheduler hands it what is due and acts on the outcome.
 *
 * - What the database refuses is tried again where the reason is known and passes: too early by its clock, or
 *   decided with a wrong time (which its answer corrected), or by settings that were changed meanwhile.
 * - A fault of the database as a whole (connection, timeout, full disk) ends the batch; what is not settled
 *   goes back. Whether a lost COMMIT happened is left open: the timer has moved or it has not, and the next
 *   try finds out.
 * - Any other error is blamed on one timer: the batch is halved until it stands alone, and that one is set
 *   aside.
 */
import { BelfryError } from '@belfry/contract'
import type { TagRequest } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { AssumedTime, Firing, FireResult, TimerFire } from '../ports/firing.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { DueTimer } from '../ports/timer-index.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { FairTags } from './fair-tags.ts'
import type { FirePreparer, HeapEntry, PreparedFire, ScheduleTimer } from './fire-preparer.ts'
import { isPlain, tidingsOf, withRuns } from './fire-tidings.ts'
import type { SetAside } from './set-aside.ts'

/** By how much a fire may be decided with a wrong time. */
const leastToleranceMs = 1_000
/** What is early by the database's clock is tried again after this at most. */
const longestEarlyMs = 250

export interface FirerOptions {
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly events: EventSink
  readonly firing: Firing
  readonly hints: Pick<Hints, 'publish'>
  readonly ids: Ids
  readonly nodeId: string
  readonly preparer: FirePreparer
  readonly setAside: SetAside
  readonly tags: Pick<FairTags, 'ready' | 'next' | 'virtualTime'>
}

export interface FireOutcome {
  /** To be tried again: not settled, or refused for a reason that passes. */
  readonly again: HeapEntry[]
  /** Timers that went on to their next planned time. */
  readonly moved: ScheduleTimer[]
  /** Shards with timers that were not as they had been read. */
  readonly changedShards: Set<number>
  /** Shards that are not held under the term that was named. */
  readonly lostShards: Set<number>
  /** Set when the database failed as a whole. */
  failure: { readonly error: unknown } | undefined
}

interface Batch extends FireOutcome {
  refused: number
  readonly open: Map<string, HeapEntry>
  readonly terms: ReadonlyMap<number, number>
  /** The time that it was decided with: the database's, and the local monotonic one of that moment. */
  readonly decidedMs: number
  readonly decidedAtMs: number
}

/** What one firer keeps from batch to batch. */
interface Context extends FirerOptions {
  /** How long the last statement took, which is how late the next may be by the time it begins. */
  lastTripMs: number
}

type RunTimer = Extract<DueTimer, { kind: 'run' }>

export interface Firer {
  /**
   * Fires what is due; `terms` names the shards held now, and each entry's shard is one of them. Ends the
   * batch at about `mostOccurrences`: many of one schedule come only from catching up.
   */
  fire(
    entries: readonly HeapEntry[],
    terms: ReadonlyMap<number, number>,
    mostOccurrences: number,
  ): Promise<FireOutcome>
}

export function createFirer(options: FirerOptions): Firer {
  const context: Context = { ...options, lastTripMs: 0 }
  return {
    async fire(entries, terms, mostOccurrences) {
      const batch = openBatch(context, entries, terms)
      try {
        await fireSchedules(context, batch, entries, mostOccurrences)
        const runs = entries.flatMap(({ timer }) => (timer.kind === 'run' ? [{ timer }] : []))
        if (runs.length > 0)
          await splitting(context, batch, runs, (part) => releasePart(context, batch, part))
      } catch (error) {
        batch.failure = { error }
      }
      batch.again.push(...batch.open.values())
      const { refused } = batch
      if (refused > 0) options.events.emit('fire_refused', { count: refused, reason: 'timer_moved' })
      return batch
    },
  }
}

function openBatch(
  { clock, databaseClock }: Context,
  entries: readonly HeapEntry[],
  terms: ReadonlyMap<number, number>,
): Batch {
  return {
    again: [],
    moved: [],
    changedShards: new Set(),
    lostShards: new Set(),
    failure: undefined,
    refused: 0,
    open: new Map(entries.map((entry) => [entry.timer.id, entry])),
    terms,
    decidedMs: databaseClock.nowMs(),
    decidedAtMs: clock.monotonicMs(),
  }
}

interface Decided {
  readonly entry: HeapEntry
  readonly timer: ScheduleTimer
  readonly prepared: PreparedFire
}

async function fireSchedules(
  context: Context,
  batch: Batch,
  entries: readonly HeapEntry[],
  mostOccurrences: number,
): Promise<void> {
  const { preparer, tags } = context
  const unready = entries.filter((entry) => preparer.needsPlan(entry, batch.decidedMs))
  await preparer.load(unready.flatMap(({ timer }) => (timer.kind === 'schedule' ? [timer] : [])))
  const decided: Decided[] = []
  let occurrences = 0
  for (const entry of entries) {
    const { timer } = entry
    if (timer.kind !== 'schedule') continue
    if (occurrences >= mostOccurrences) break
    const prepared = preparer.decide(entry, timer, batch.decidedMs)
    if ('stale' in prepared) {
      refuse(context, batch, timer)
    } else if ('fault' in prepared) {
      rest(context, batch, timer, prepared.fault)
    } else {
      occurrences += prepared.fire.occurrences.length
      decided.push({ entry, timer, prepared })
    }
  }
  if (decided.length === 0) return
  const ofJobs = decided.filter(({ prepared }) => prepared.plan.target === 'job')
  await tags.ready(ofJobs.map(({ prepared }) => prepared.plan.queue))
  const fires = decided.map((each) => ({ timer: each.timer, fire: toFire(context, batch, each) }))
  // the statement that knows all policies costs more for each timer that is in it
  for (const [target, plain] of statementKinds) {
    const alike = fires.filter(({ fire }) => (fire.target ?? 'job') === target && fire.plain === plain)
    await splitting(context, batch, alike, (part) => firePart(context, batch, part))
  }
}

/** A workflow has one statement for all policies, and counts as not plain. */
const statementKinds = [
  ['job', true],
  ['job', false],
  ['workflow', false],
] as const

function toFire(
  context: Context,
  batch: Batch,
  { entry, timer, prepared: { plan, fire, intervals } }: Decided,
): TimerFire {
  const { queue, tenantId, tenantWeight: weight, priority } = plan
  const request = { queue, tenantId, weight, priority }
  const first = fire.occurrences.find(({ outcome }) => outcome === 'ran')
  return {
    scheduleId: timer.id,
    shard: timer.shard,
    gen: timer.gen,
    version: plan.version,
    expectedDueAtMs: timer.dueAtMs,
    next: fire.next,
    target: plan.target,
    plain: plan.target === 'job' && isPlain(plan),
    occurrences: withRuns(
      fire.occurrences,
      context.ids,
      batch.decidedMs,
      (occurrence) => {
        if (plan.target === 'workflow') return 0
        return occurrence === first ? tagOf(context, entry, request) : context.tags.next(request)
      },
      intervals,
    ),
  }
}

/**
 * What is tried again keeps the place that it took first, or failures would use up the places of a tenant,
 * unless the service has come past it: a claim no longer looks there.
 */
function tagOf({ tags }: Context, entry: HeapEntry, request: TagRequest): number {
  const standsAt = tags.virtualTime(request.queue) ?? Infinity
  if (entry.tag === undefined || entry.tag <= standsAt) entry.tag = tags.next(request)
  return entry.tag
}

/** Does `work` on all parts together, or on halves of them, down to the one that is at fault. */
async function splitting<Part extends { readonly timer: DueTimer }>(
  context: Context,
  batch: Batch,
  parts: readonly Part[],
  work: (parts: readonly Part[]) => Promise<void>,
): Promise<void> {
  const [only] = parts
  if (only === undefined) return
  try {
    await work(parts)
  } catch (error) {
    if (isFailureOfDatabase(error)) throw error
    if (parts.length === 1) return rest(context, batch, only.timer, error)
    const middle = Math.ceil(parts.length / 2)
    await splitting(context, batch, parts.slice(0, middle), work)
    await splitting(context, batch, parts.slice(middle), work)
  }
}

function isFailureOfDatabase(error: unknown): boolean {
  return (
    error instanceof BelfryError &&
    error.code !== 'internal' &&
    (error.retryable || error.code === 'schema_mismatch')
  )
}

async function firePart(
  context: Context,
  batch: Batch,
  part: readonly { readonly timer: ScheduleTimer; readonly fire: TimerFire }[],
): Promise<void> {
  const { clock, databaseClock, firing, nodeId } = context
  const shards = new Set(part.map(({ timer }) => timer.shard))
  const terms = [...shards].map((shard) => ({ shard, term: batch.terms.get(shard) ?? 0 }))
  const sentMs = clock.monotonicMs()
  const assumed = {
    nowMs: batch.decidedMs + sentMs - batch.decidedAtMs,
    toleranceMs: Math.max(leastToleranceMs, 2 * context.lastTripMs),
  }
  const fires = part.map(({ fire }) => fire)
  const result = await firing.fire(nodeId, terms, fires, assumed)
  databaseClock.observe(result.nowMs, sentMs)
  context.lastTripMs = clock.monotonicMs() - sentMs
  sortOut(context, batch, part, result, assumed)
  tell(context, result, context.lastTripMs)
}

function sortOut(
  context: Context,
  batch: Batch,
  part: readonly { readonly timer: ScheduleTimer; readonly fire: TimerFire }[],
  result: FireResult,
  assumed: AssumedTime,
): void {
  const moved = new Set(result.movedScheduleIds)
  const ended = new Set(result.endedScheduleIds)
  const changed = new Set(result.changedScheduleIds)
  const held = new Set(result.heldShards)
  const wrongTime = Math.abs(result.nowMs - assumed.nowMs) > assumed.toleranceMs
  let lost = 0
  for (const { timer, fire } of part) {
    const lastDueMs = Math.max(timer.dueAtMs, ...fire.occurrences.map(({ dueAtMs }) => dueAtMs))
    if (moved.has(timer.id)) {
      batch.open.delete(timer.id)
      context.setAside.clear(timer.id)
      if (fire.next !== null && !ended.has(timer.id)) batch.moved.push({ ...timer, ...fire.next })
    } else if (!held.has(timer.shard)) {
      batch.open.delete(timer.id)
      batch.lostShards.add(timer.shard)
      lost++
    } else if (changed.has(timer.id)) {
      context.preparer.forget(timer)
      batch.open.set(timer.id, { timer })
    } else if (lastDueMs > result.nowMs) {
      batch.open.set(timer.id, later(context, batch, timer, lastDueMs - result.nowMs))
    } else if (!wrongTime) {
      refuse(context, batch, timer)
    }
  }
  if (lost > 0) context.events.emit('fire_refused', { count: lost, reason: 'term_lost' })
}

/** The entry of a timer that was early: it waits, and nothing else does. */
function later({ databaseClock }: Context, batch: Batch, timer: DueTimer, earlyMs: number): HeapEntry {
  const waitMs = Math.min(longestEarlyMs, Math.max(1, earlyMs))
  return { ...batch.open.get(timer.id), timer, notBeforeMs: databaseClock.nowMs() + waitMs }
}

async function releasePart(
  context: Context,
  batch: Batch,
  part: readonly { readonly timer: RunTimer }[],
): Promise<void> {
  const { clock, databaseClock, events, firing, hints, setAside, tags } = context
  await tags.ready(part.map(({ timer }) => timer.queue))
  const runs = part.map(({ timer }) => {
    const { queue, tenantId, tenantWeight: weight, priority } = timer
    const entry = batch.open.get(timer.id) ?? { timer }
    return { runId: timer.id, tag: tagOf(context, entry, { queue, tenantId, weight, priority }) }
  })
  const sentMs = clock.monotonicMs()
  const result = await firing.release(runs)
  databaseClock.observe(result.nowMs, sentMs)
  const released = new Set(result.releasedRunIds)
  const putOff = new Set(result.putOffRunIds)
  const moved = new Map(result.movedRuns.map(({ runId, dueAtMs }) => [runId, dueAtMs]))
  for (const { timer } of part) {
    const earlyMs = released.has(timer.id) ? 0 : timer.dueAtMs - result.nowMs
    const movedToMs = putOff.has(timer.id) ? result.putOffToMs : moved.get(timer.id)
    if (movedToMs !== undefined) batch.open.set(timer.id, { timer: { ...timer, dueAtMs: movedToMs } })
    else if (earlyMs > 0) batch.open.set(timer.id, later(context, batch, timer, earlyMs))
    // Neither released nor early: canceled, or released by another node.
    else batch.open.delete(timer.id)
    if (released.has(timer.id)) setAside.clear(timer.id)
  }
  if (released.size === 0) return
  events.emit('runs_released', { count: released.size })
  for (const queue of result.releasedQueues) hints.publish({ topic: 'ready', key: queue })
}

/** The timer is not what was read (edited, paused, fired by another node): read its shard again. */
function refuse({ setAside }: FirerOptions, batch: Batch, timer: ScheduleTimer): void {
  batch.open.delete(timer.id)
  batch.changedShards.add(timer.shard)
  batch.refused++
  setAside.add(timer)
}

function rest({ events, setAside }: FirerOptions, batch: Batch, timer: DueTimer, cause: unknown): void {
  batch.open.delete(timer.id)
  const retryInMs = setAside.add(timer)
  const what = timer.kind === 'schedule' ? 'schedule' : 'run'
  const why = cause instanceof Error ? cause.message : String(cause)
  const error = new Error(`The ${what} ${timer.id} cannot be fired as it is: ${why}`, { cause })
  events.emit('role_failed', { role: 'scheduler', error, retryInMs })
}

/** Makes known what was committed: events, and hints to workers and schedulers. */
function tell({ events, hints }: FirerOptions, result: FireResult, durationMs: number): void {
  const { outcomes, started, ended, hints: told } = tidingsOf(result)
  if (outcomes.length > 0) events.emit('occurrences_fired', { outcomes, durationMs })
  for (const [queue, count] of started) events.emit('runs_enqueued', { count, queue, source: 'schedule' })
  for (const each of ended) events.emit('attempt_ended', each)
  for (const hint of told) hints.publish(hint)
}
