/**
 * The firing transaction on Postgres: turns the engine's decisions into arrays for one statement, and its
 * answer back. What makes it safe stands in ports/firing.ts and, step by step, with the statement.
 */
import { laneOf } from '../domain/route.ts'
import type { Firing, SchedulePlan, TimerFire } from '../ports/firing.ts'
import type { Database } from './database.ts'
import { fireTimers, type PlanRow, releaseDelayed, schedulePlans } from './statements/firing.ts'

const engine = { role: 'belfry_engine' } as const

export function createPostgresFiring(db: Database): Firing {
  return {
    async plans(scheduleIds) {
      const rows = await db.run({ ...engine, readOnly: true }, schedulePlans, [scheduleIds])
      return rows.map((row) => toPlan(row))
    },
    async fire(nodeId, terms, unordered, assumed) {
      // Timers are locked in this order, the same in every process.
      const fires = unordered.toSorted((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1))
      const occurrences = fires.flatMap(({ scheduleId, occurrences }) =>
        occurrences.map((occurrence) => ({ scheduleId, ...occurrence })),
      )
      const [row] = await db.run(engine, fireTimers, [
        nodeId,
        terms.map(({ shard }) => shard),
        terms.map(({ term }) => term),
        assumed.nowMs,
        assumed.toleranceMs,
        ...timerColumns(fires),
        occurrences.map(({ scheduleId }) => scheduleId),
        occurrences.map(({ scheduledForMs }) => scheduledForMs),
        occurrences.map(({ dueAtMs }) => dueAtMs),
        occurrences.map(({ outcome }) => outcome),
        occurrences.map(({ reason }) => reason),
        occurrences.map(({ missedCount }) => missedCount),
        occurrences.map(({ runId }) => runId),
        occurrences.map(({ tag }) => tag),
      ])
      if (row === undefined) throw new Error('The fire statement answered no row.')
      return {
        fired: row.fired.map(([scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs]) => {
          return { scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs }
        }),
        movedScheduleIds: row.moved,
        changedScheduleIds: row.changed,
        heldShards: row.held,
        nowMs: row.now_ms,
      }
    },
    async release(unordered) {
      // Locked in this order, as above: two nodes may release the same runs.
      const runs = unordered.toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
      const [row] = await db.run(engine, releaseDelayed, [
        runs.map(({ runId }) => runId),
        runs.map(({ tag }) => tag),
      ])
      if (row === undefined) throw new Error('The release statement answered no row.')
      return { releasedRunIds: row.released, releasedQueues: row.queues, nowMs: row.now_ms }
    },
  }
}

function timerColumns(fires: readonly TimerFire[]) {
  return [
    fires.map(({ scheduleId }) => scheduleId),
    fires.map(({ gen }) => gen),
    fires.map(({ version }) => version),
    fires.map(({ expectedDueAtMs }) => expectedDueAtMs),
    fires.map(({ occurrences }) => Math.max(...occurrences.map(({ dueAtMs }) => dueAtMs))),
    fires.map(({ next }) => next?.scheduledForMs ?? null),
    fires.map(({ next }) => next?.dueAtMs ?? null),
  ] as const
}

function toPlan(row: PlanRow): SchedulePlan {
  return {
    scheduleId: row.id,
    tenantId: row.tenant_id,
    gen: row.gen,
    version: row.version,
    spec: row.spec,
    zone: row.zone,
    startAtMs: row.start_ms,
    endAtMs: row.end_ms,
    jitterMs: row.jitter_ms,
    catchUp: row.catch_up,
    overlap: row.overlap,
    queue: laneOf(row.queue, row.handler),
    priority: row.priority,
    tenantWeight: row.weight,
  }
}
