/**
 * Rows of processes and the pace of queues on Postgres (ports/nodes.ts): small writes, each with a limit of
 * time.
 */
import type { NodeRecords } from '../ports/nodes.ts'
import type { Database, Scope } from './database.ts'
import { forgetNodes, notePace, removeReport, reportNode } from './statements/nodes.ts'

const silentMinutes = 10
const idleHours = 24
/** One that takes longer is worth nothing: the next one comes. */
const engine: Scope = { role: 'belfry_engine', timeoutMs: 5_000 }

export function createPostgresNodeRecords(db: Database): NodeRecords {
  return {
    async report(node, lifeMs) {
      const { id, host, version, roles, skew, lagMs, worker, parts } = node
      const [row] = await db.run(engine, reportNode, [
        id,
        host,
        version,
        roles,
        lifeMs,
        skew?.ms ?? null,
        skew?.errorMs ?? null,
        lagMs,
        worker?.queues ?? null,
        worker?.slots ?? null,
        worker?.busy ?? null,
        JSON.stringify(parts),
      ])
      if (row === undefined) throw new Error('The report of a process answered no row.')
      return { nowMs: row.now_ms }
    },
    async notePace(entries) {
      await db.run(engine, notePace, [
        entries.map((entry) => entry.tenantId),
        entries.map((entry) => entry.queue),
        entries.map((entry) => entry.kind),
        entries.map((entry) => entry.attempts),
        entries.map((entry) => entry.busyMs),
      ])
    },
    async leave(nodeId) {
      await db.run(engine, removeReport, [nodeId])
    },
    async forget() {
      await db.run(engine, forgetNodes, [silentMinutes, idleHours])
    },
  }
}
