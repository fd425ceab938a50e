/**
 * Fires a batch of due timers and releases due runs, and sorts out what became of each. Knows nothing of
 * heaps and waiting; the scheduler hands it what is due and acts on the outcome.
 *
 * - A fault of the database as a whole (connection, timeout, full disk) ends the batch; what is not settled
 *   goes back. Whether a lost COMMIT happened is left open: the timer has moved or it has not, and the next
 *   try finds out.
 * - Any other error is blamed on one timer: the batch is halved until it stands alone, and that one is set
 *   aside.
 */
import { BelfryError } from '@belfry/contract'
import type { TagClock } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { FiredOccurrence, Firing, FireResult, TimerFire } from '../ports/firing.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { DueTimer } from '../ports/timer-index.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { FirePreparer, HeapEntry, PreparedFire, ScheduleTimer } from './fire-preparer.ts'
import type { SetAside } from './set-aside.ts'

/** Occurrences in one transaction; more come only from catching up. */
const maxOccurrences = 2_000

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
  readonly tags: TagClock
}

export interface FireOutcome {
  /** To be tried again: not settled, or too early by the database's clock. */
  readonly again: HeapEntry[]
  /** Too early by so many ms. */
  earlyMs: number
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
}

type RunTimer = Extract<DueTimer, { kind: 'run' }>

export interface Firer {
  /** Fires what is due; `terms` names the shards held now, and each entry's shard is one of them. */
  fire(entries: readonly HeapEntry[], terms: ReadonlyMap<number, number>): Promise<FireOutcome>
}

export function createFirer(options: FirerOptions): Firer {
  return {
    async fire(entries, terms) {
      const batch: Batch = {
        again: [],
        earlyMs: 0,
        moved: [],
        changedShards: new Set(),
        lostShards: new Set(),
        failure: undefined,
        refused: 0,
        open: new Map(entries.map((entry) => [entry.timer.id, entry])),
        terms,
      }
      try {
        await fireSchedules(options, batch, entries)
        const runs = entries.flatMap(({ timer }) => (timer.kind === 'run' ? [{ timer }] : []))
        if (runs.length > 0)
          await splitting(options, batch, runs, (part) => releasePart(options, batch, part))
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

async function fireSchedules(
  options: FirerOptions,
  batch: Batch,
  entries: readonly HeapEntry[],
): Promise<void> {
  const { databaseClock, preparer } = options
  const unready = entries.filter((entry) => preparer.needsPlan(entry, databaseClock.nowMs()))
  await preparer.load(unready.flatMap(({ timer }) => (timer.kind === 'schedule' ? [timer] : [])))
  const nowMs = databaseClock.nowMs()
  const fires: { readonly timer: ScheduleTimer; readonly fire: TimerFire }[] = []
  let occurrences = 0
  for (const entry of entries) {
    const { timer } = entry
    if (timer.kind !== 'schedule') continue
    if (occurrences >= maxOccurrences) break
    const prepared = preparer.decide(entry, timer, nowMs)
    if ('stale' in prepared) {
      refuse(options, batch, timer)
    } else if ('fault' in prepared) {
      rest(options, batch, timer, prepared.fault)
    } else {
      const fire = toFire(options, entry, timer, prepared, nowMs)
      occurrences += fire.occurrences.length
      fires.push({ timer, fire })
    }
  }
  if (fires.length > 0) await splitting(options, batch, fires, (part) => firePart(options, batch, part))
}

function toFire(
  { ids, tags }: FirerOptions,
  entry: HeapEntry,
  timer: ScheduleTimer,
  { plan, fire }: PreparedFire,
  nowMs: number,
): TimerFire {
  const { queue, tenantId, tenantWeight: weight, priority } = plan
  const nextTag = (): number => tags.next({ queue, tenantId, weight, priority })
  const first = fire.occurrences.find(({ outcome }) => outcome === 'ran')
  return {
    scheduleId: timer.id,
    shard: timer.shard,
    gen: timer.gen,
    expectedDueAtMs: timer.dueAtMs,
    next: fire.next,
    occurrences: fire.occurrences.map((occurrence) => {
      if (occurrence.outcome !== 'ran') return { ...occurrence, runId: null, tag: 0 }
      // A fire that is tried again keeps the place that it took first.
      const tag = occurrence === first ? (entry.tag ??= nextTag()) : nextTag()
      return { ...occurrence, runId: ids.uuidv7(Math.floor(nowMs)), tag }
    }),
  }
}

/** Does `work` on all parts together, or on halves of them, down to the one that is at fault. */
async function splitting<Part extends { readonly timer: DueTimer }>(
  options: FirerOptions,
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
    if (parts.length === 1) return rest(options, batch, only.timer, error)
    const middle = Math.ceil(parts.length / 2)
    await splitting(options, batch, parts.slice(0, middle), work)
    await splitting(options, batch, parts.slice(middle), work)
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
  options: FirerOptions,
  batch: Batch,
  part: readonly { readonly timer: ScheduleTimer; readonly fire: TimerFire }[],
): Promise<void> {
  const { clock, databaseClock, firing, nodeId, setAside } = options
  const shards = new Set(part.map(({ timer }) => timer.shard))
  const terms = [...shards].map((shard) => ({ shard, term: batch.terms.get(shard) ?? 0 }))
  const sentMs = clock.monotonicMs()
  const result = await firing.fire(
    nodeId,
    terms,
    part.map(({ fire }) => fire),
  )
  databaseClock.observe(result.nowMs, sentMs)
  const moved = new Set(result.movedScheduleIds)
  const held = new Set(result.heldShards)
  let lost = 0
  for (const { timer, fire } of part) {
    if (moved.has(timer.id)) {
      batch.open.delete(timer.id)
      setAside.clear(timer.id)
      if (fire.next !== null) batch.moved.push({ ...timer, ...fire.next })
    } else if (!held.has(timer.shard)) {
      batch.open.delete(timer.id)
      batch.lostShards.add(timer.shard)
      lost++
    } else if (timer.dueAtMs > result.nowMs) {
      batch.earlyMs = Math.max(batch.earlyMs, timer.dueAtMs - result.nowMs)
    } else {
      refuse(options, batch, timer)
    }
  }
  if (lost > 0) options.events.emit('fire_refused', { count: lost, reason: 'term_lost' })
  tell(options, result, clock.monotonicMs() - sentMs)
}

async function releasePart(
  options: FirerOptions,
  batch: Batch,
  part: readonly { readonly timer: RunTimer }[],
): Promise<void> {
  const { clock, databaseClock, events, firing, hints, setAside, tags } = options
  const runs = part.map(({ timer }) => {
    const entry = batch.open.get(timer.id)
    const { queue, tenantId, priority } = timer
    const tag = entry?.tag ?? tags.next({ queue, tenantId, weight: 1, priority })
    if (entry !== undefined) entry.tag = tag
    return { runId: timer.id, tag }
  })
  const sentMs = clock.monotonicMs()
  const result = await firing.release(runs)
  databaseClock.observe(result.nowMs, sentMs)
  const released = new Set(result.releasedRunIds)
  for (const { timer } of part) {
    const early = !released.has(timer.id) && timer.dueAtMs > result.nowMs
    if (early) batch.earlyMs = Math.max(batch.earlyMs, timer.dueAtMs - result.nowMs)
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

/** Events of what was committed, and hints to workers. */
function tell({ events, hints }: FirerOptions, { fired, nowMs }: FireResult, durationMs: number): void {
  if (fired.length === 0) return
  const outcomes = fired.map(({ scheduleId, scheduledForMs: scheduledFor, outcome, dueAtMs }) => {
    return { scheduleId, scheduledFor, outcome, lateMs: Math.max(0, nowMs - dueAtMs) }
  })
  events.emit('occurrences_fired', { outcomes, durationMs })
  for (const [queue, count] of countByQueue(fired)) {
    events.emit('runs_enqueued', { count, queue, source: 'schedule' })
    hints.publish({ topic: 'ready', key: queue })
  }
}

function countByQueue(fired: readonly FiredOccurrence[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { runId, queue } of fired) if (runId !== null) counts.set(queue, (counts.get(queue) ?? 0) + 1)
  return counts
}
