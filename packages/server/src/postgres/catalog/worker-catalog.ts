/**
 * What a tenant can see of its workers and of the logs that they write, on Postgres: workers that are alive,
 * and logs chunk by chunk.
 */
import type { LogChunkRecord, WorkerCatalog } from '../../ports/worker-catalog.ts'
import type { Transaction } from '../database.ts'
import { listLogChunks, listWorkers } from '../statements/workers.ts'
import { lastId, msOf } from './values.ts'

export function createWorkerCatalog(tx: Transaction): WorkerCatalog {
  return {
    async list({ beforeId, limit }) {
      const rows = await tx.query(listWorkers, [beforeId ?? lastId, limit])
      return rows.map(
        ({ started_at: startedAt, heartbeat_at: heartbeatAt, expires_at: expiresAt, ...row }) => ({
          ...row,
          startedAtMs: msOf(startedAt),
          heartbeatAtMs: msOf(heartbeatAt),
          expiresAtMs: msOf(expiresAt),
        }),
      )
    },
    async logChunks(runId, attempt, afterLine, limit) {
      const rows = await tx.query(listLogChunks, [runId, attempt, afterLine, limit])
      return rows.map((row) => ({
        attempt: row.number,
        firstLine: row.first_line,
        lastLine: row.last_line,
        lines: row.lines as LogChunkRecord['lines'],
        fullAfter: row.full_after,
      }))
    },
  }
}
