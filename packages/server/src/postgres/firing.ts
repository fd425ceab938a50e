/**
 * The firing transaction on Postgres: turns the engine's decisions into arrays for one statement, and its
 * answer back. What makes it safe stands in ports/firing.ts and, step by step, with the statement.
 */
import type { CalendarRef, CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import { laneOf } from '../domain/route.ts'
import { createCalendarShelf } from '../engine/calendar-shelf.ts'
import type { CalendarShelf, ReadDefinitions } from '../ports/calendars.ts'
import type { Firing, ReleaseResult, SchedulePlan } from '../ports/firing.ts'
import { readDefinitions } from './catalog/calendar-store.ts'
import type { Database } from './database.ts'
import { intervalColumn, toFireColumns, toFireResult } from './fire-rows.ts'
import { sealDueGatherings } from './seal-gatherings.ts'
import { fireTimers, fireTimersWithPolicies } from './statements/fire.ts'
import { fireWorkflowTimers } from './statements/fire-workflows.ts'
import { type PlanRow, recheckMs, releaseDelayed, schedulePlans } from './statements/firing.ts'

const engine = { role: 'belfry_engine' } as const

/** `dataVersion`: release of the zone data that this process computes next times with. */
export function createPostgresFiring(
  db: Database,
  dataVersion: string | null = null,
  shelf: CalendarShelf = createCalendarShelf(),
): Firing {
  const reading = { ...engine, readOnly: true }
  const read = readDefinitions((statement, params) => db.run(reading, statement, params))
  return {
    plans: async (scheduleIds) => toPlans(await db.run(reading, schedulePlans, [scheduleIds]), shelf, read),
    async fire(nodeId, terms, fires, assumed) {
      const columns = [
        ...toFireColumns(fires),
        nodeId,
        terms.map(({ shard }) => shard),
        terms.map(({ term }) => term),
        assumed.nowMs,
        assumed.toleranceMs,
        dataVersion,
      ] as const
      if (fires.some(({ target }) => target === 'workflow')) {
        const [row] = await db.run(engine, fireWorkflowTimers, [...columns, intervalColumn(fires)])
        return toFireResult(row)
      }
      const text = fires.every(({ plain }) => plain) ? fireTimers : fireTimersWithPolicies
      const [row] = await db.run(engine, text, [...columns])
      return toFireResult(row)
    },
    async release(unordered) {
      // Locked in this order, as timers are: two nodes may release the same runs.
      const runs = unordered.toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
      const first = await releaseOnce(db, runs)
      const due = first.movedRuns.filter(({ dueAtMs }) => dueAtMs <= first.nowMs)
      if (due.length === 0) return first
      const sealed = await sealDueGatherings(
        db,
        due.map(({ runId }) => runId),
      )
      const again = await releaseOnce(
        db,
        runs.filter(({ runId }) => sealed.has(runId)),
      )
      return {
        releasedRunIds: [...first.releasedRunIds, ...again.releasedRunIds],
        releasedQueues: [...new Set([...first.releasedQueues, ...again.releasedQueues])],
        putOffRunIds: [...first.putOffRunIds, ...again.putOffRunIds],
        putOffToMs: again.putOffToMs,
        movedRuns: first.movedRuns.filter(({ runId }) => !sealed.has(runId)),
        nowMs: again.nowMs,
      }
    },
  }
}

async function releaseOnce(
  db: Database,
  runs: readonly { readonly runId: string; readonly tag: number }[],
): Promise<ReleaseResult> {
  const [row] = await db.run(engine, releaseDelayed, [
    runs.map(({ runId }) => runId),
    runs.map(({ tag }) => tag),
  ])
  if (row === undefined) throw new Error('The release statement answered no row.')
  return {
    releasedRunIds: row.released,
    releasedQueues: row.queues,
    putOffRunIds: row.put_off,
    putOffToMs: row.now_ms + recheckMs,
    movedRuns: row.gathering.map(([runId, dueAtMs]) => ({ runId, dueAtMs })),
    nowMs: row.now_ms,
  }
}

/** What a scheduler knows of schedules, from their rows. */
export async function toPlans(
  rows: readonly PlanRow[],
  shelf: CalendarShelf,
  read: ReadDefinitions,
): Promise<readonly SchedulePlan[]> {
  const useOf = await shelf.take(rows.flatMap(refsOf), read)
  return rows.map((row) => toPlan(row, refsOf(row).map(useOf)))
}

const refsOf = ({ calendars }: PlanRow): readonly CalendarRef[] => calendars as readonly CalendarRef[]

function toPlan(row: PlanRow, calendars: readonly CalendarUse[]): SchedulePlan {
  return {
    scheduleId: row.id,
    tenantId: row.tenant_id,
    gen: row.gen,
    version: row.version,
    spec: row.spec,
    zone: row.zone,
    startAtMs: row.start_ms,
    endAtMs: row.end_ms,
    calendars,
    onExcluded: row.on_excluded,
    jitterMs: row.jitter_ms,
    flexibleWindowMs: row.flexible_window_ms,
    catchUp: row.catch_up,
    overlap: row.overlap,
    runLimit: row.run_limit,
    sleepUntilMs: row.sleep_until_ms,
    sleepReason: row.sleep_reason,
    target: row.queue === null ? 'workflow' : 'job',
    queue: row.queue === null ? '' : laneOf(row.queue, row.handler ?? ''),
    priority: row.priority ?? 0,
    tenantWeight: row.weight,
  }
}
