/**
 * What is new of runs that are followed, and where a run stands, on Postgres (statements/run-watch.ts). As
 * the engine, which sees all tenants: whose a run is, is checked by those who ask.
 */
import type { RunReason, TerminalRunState } from '@belfry/contract'
import type { Standing } from '../domain/run-insight/explain-run.ts'
import { functionOfRoute } from '../domain/route.ts'
import type { RunEnd, RunNews, RunWatchStore } from '../ports/run-watch.ts'
import type { LogChunkRecord } from '../ports/worker-catalog.ts'
import type { Database } from './database.ts'
import type { StandingRow, WatchedRow } from './statements/run-watch.ts'
import { lookAtRuns, standingOfRun } from './statements/run-watch.ts'

const reading = { role: 'belfry_engine', readOnly: true } as const
/** Chunks of one run in one look: no more than a slow reader is to be ahead of. */
const chunksPerLook = 20
/** Lines in a chunk, at most (workers.ts of the contract). */
const mostLines = 1_000
/** How many before a run are counted, and workers that could run it. */
const mostAhead = 1_000
const mostWorkers = 200
/** Behind every attempt that there can be. */
const behindAll = 2_147_483_647

export function createPostgresRunWatchStore(db: Database): RunWatchStore {
  return {
    async look(places) {
      const rows = await db.run(reading, lookAtRuns, [
        places.map(({ runId }) => runId),
        places.map(({ after }) => after?.attempt ?? behindAll),
        places.map(({ after }) => after?.line ?? -1),
        chunksPerLook + 1,
        mostLines,
      ])
      const found = Map.groupBy(rows, ({ place }) => place)
      return places.map((_, index) => newsOf(found.get(index)))
    },
    async standing(runId) {
      const [row] = await db.run(reading, standingOfRun, [runId, mostAhead, mostWorkers])
      return row === undefined ? undefined : standingOf(row)
    },
  }
}

function newsOf(rows: readonly WatchedRow[] | undefined): RunNews | undefined {
  const [first] = rows ?? []
  if (rows === undefined || first === undefined) return undefined
  const chunks = rows.flatMap(chunkOf)
  return { chunks: chunks.slice(0, chunksPerLook), more: chunks.length > chunksPerLook, end: endOf(first) }
}

// the CHECKs on `attempt` hold these words
function endOf({ run_state: state, reason }: WatchedRow): RunEnd | null {
  return state === null ? null : { state: state as TerminalRunState, reason: reason as RunReason | null }
}

function chunkOf(row: WatchedRow): LogChunkRecord[] {
  const { number: attempt, first_line: firstLine, last_line: lastLine } = row
  if (attempt === null || firstLine === null || lastLine === null) return []
  const lines = row.lines as LogChunkRecord['lines']
  return [{ attempt, firstLine, lastLine, lines, fullAfter: row.full_after ?? false }]
}

function standingOf(row: StandingRow): Standing {
  const { ahead, workers, slots, held, elsewhere, handler } = row
  return {
    functionName: functionOfRoute(handler) ?? null,
    ahead,
    aheadCapped: ahead >= mostAhead,
    servers: { workers, slots, held },
    servingElsewhere: elsewhere,
    session: sessionOf(row),
  }
}

function sessionOf(row: StandingRow): Standing['session'] {
  const { session_id: id, claimed_at_ms: claimedAtMs, deadline_ms: deadlineMs } = row
  if (id === null || claimedAtMs === null || deadlineMs === null) return null
  const { session_host: host, heartbeat_at_ms: heartbeatAtMs, expires_at_ms: expiresAtMs } = row
  const gone = host === null || heartbeatAtMs === null || expiresAtMs === null
  return { id, claimedAtMs, deadlineMs, alive: gone ? null : { host, heartbeatAtMs, expiresAtMs } }
}
