/**
 * What may be announced, as rows of `ready` tell (statements/announced.ts): the reading side of the
 * announcer. It writes nothing.
 */
import { serverRoutes } from '../domain/route.ts'
import type { NextRun, ReadyWindows } from '../ports/ready-windows.ts'
import type { Database } from './database.ts'
import { listOf } from './list-text.ts'
import { listAnnouncedQueues, listNextRuns, listServedSlots, type WindowRow } from './statements/announced.ts'

const engine = { role: 'belfry_engine', readOnly: true } as const

/** Queues of one look: some 10 ms. */
const maxSteps = 1_000

export function createPostgresReadyWindows(db: Database): ReadyWindows {
  return {
    async queues(afterQueue) {
      const rows = await db.run(engine, listAnnouncedQueues, [afterQueue, maxSteps, serverRoutes])
      const last = rows.at(-1)
      const queues = rows.flatMap(({ queue, ready }) => (ready ? [queue] : []))
      return { queues, next: rows.length < maxSteps ? undefined : last?.queue }
    },
    async next(windows) {
      const rows = await db.run(engine, listNextRuns, [
        windows.map((each) => each.queue),
        windows.map((each) => each.minTag),
        windows.map((each) => each.size),
        serverRoutes,
      ])
      return new Map(rows.map((row) => [row.queue, toRuns(row)]))
    },
    async slots() {
      const rows = await db.run(engine, listServedSlots, [])
      return rows.map(({ queues, slots }) => ({ queues: queues.includes('*') ? '*' : queues, slots }))
    },
  }
}

function toRuns(row: WindowRow): readonly NextRun[] {
  const tags = listOf(row.tags)
  const epochs = listOf(row.lease_epochs)
  const runs = listOf(row.run_ids).map((runId, index) => ({
    runId,
    tag: Number(tags[index]),
    leaseEpoch: Number(epochs[index]),
    orderKey: row.order_keys?.[runId],
  }))
  return runs.sort((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
}
