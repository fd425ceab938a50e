/**
 * What a fire needs before it is sent and what is to be made known once it is committed; the same for the
 * scheduler's fires and for those within a request.
 */
import type { EngineEvents } from '@belfry/contract'
import type { DecidedOccurrence } from '../domain/fire-policy.ts'
import { shardOf } from '../domain/shard.ts'
import type { FireResult, PlannedOccurrence, SchedulePlan } from '../ports/firing.ts'
import type { Hint } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'

/** Whether a fire of this schedule needs none of the dearer policies. */
export function isPlain({ overlap, runLimit }: Pick<SchedulePlan, 'overlap' | 'runLimit'>): boolean {
  return (overlap === 'skip' || overlap === 'allow') && runLimit === null
}

/**
 * The occurrences with the ids of their runs and their places in the fair order. Ids of one fire grow in the
 * order of the planned times: runs that wait for each other are locked in that order. `intervals`: of
 * workflow runs, by planned time, which have no place in a queue.
 */
export function withRuns(
  occurrences: readonly DecidedOccurrence[],
  ids: Ids,
  nowMs: number,
  tagOf: (occurrence: DecidedOccurrence) => number,
  intervals?: ReadonlyMap<number, number | null>,
): PlannedOccurrence[] {
  const running = occurrences.filter(({ outcome }) => outcome === 'ran')
  const runIds = running.map(() => ids.uuidv7(Math.floor(nowMs))).sort()
  const runs = new Map(running.map((occurrence, index) => [occurrence, runIds[index]]))
  return occurrences.map((occurrence) => {
    const runId = runs.get(occurrence) ?? null
    const tag = runId === null ? 0 : tagOf(occurrence)
    if (intervals === undefined) return { ...occurrence, runId, tag }
    return { ...occurrence, runId, tag, intervalStartMs: intervals.get(occurrence.scheduledForMs) ?? null }
  })
}

export interface Tidings {
  readonly outcomes: EngineEvents['occurrences_fired']['outcomes']
  /** How many runs were started, or made to wait, by queue. */
  readonly started: ReadonlyMap<string, number>
  /** Attempts that were ended to make room. */
  readonly ended: readonly EngineEvents['attempt_ended'][]
  readonly hints: readonly Hint[]
}

export function tidingsOf({
  fired,
  displaced,
  toldDependents,
  nowMs,
}: Pick<FireResult, 'fired' | 'displaced' | 'toldDependents' | 'nowMs'>): Tidings {
  const started = new Map<string, number>()
  const ready = new Set<string>()
  const shards = new Set<number>()
  let workflows = false
  for (const { runId, queue, waits } of fired) {
    if (runId === null) continue
    if (queue === null) {
      workflows ||= !waits
      continue
    }
    started.set(queue, (started.get(queue) ?? 0) + 1)
    if (waits) shards.add(shardOf(runId))
    else ready.add(queue)
  }
  const sessions = new Set(displaced.flatMap(({ sessionId }) => (sessionId === null ? [] : [sessionId])))
  return {
    outcomes: fired.map(({ scheduledForMs: scheduledFor, dueAtMs, missedCount: count, ...occurrence }) => {
      const { scheduleId, outcome, reason } = occurrence
      return { scheduleId, scheduledFor, outcome, reason, count, lateMs: Math.max(0, nowMs - dueAtMs) }
    }),
    started,
    ended: displaced.flatMap(({ runId, tenantId, jobId, queue, attempt, startedAtMs, ended }) => {
      if (!ended || startedAtMs === null) return []
      const durationMs = Math.max(0, nowMs - startedAtMs)
      const how = { outcome: 'canceled', state: 'canceled', errorCode: 'canceled' } as const
      return [{ runId, tenantId, jobId, queue, attempt, durationMs, ...how }]
    }),
    hints: [
      ...[...ready].map((key): Hint => ({ topic: 'ready', key })),
      ...[...shards].map((shard): Hint => ({ topic: 'timers', key: String(shard) })),
      ...[...sessions].map((key): Hint => ({ topic: 'cancel', key })),
      ...(workflows ? [{ topic: 'workflows', key: 'any' } as const] : []),
      ...(toldDependents ? [{ topic: 'dependencies', key: 'any' } as const] : []),
    ],
  }
}
