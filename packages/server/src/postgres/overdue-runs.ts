/**
 * Ends runs that wait past their time (statements/expiry.ts): those that wait for no other together, those in
 * a chain one by one, each in a transaction of its own, because the chain is closed over them.
 */
import { overdueWords } from '../domain/run-limits.ts'
import type { ExpiredRun, OverdueRun, OverdueRuns } from '../ports/overdue-runs.ts'
import type { PausedSchedule } from '../ports/run-store.ts'
import { recordDeadLetters } from './dead-letters.ts'
import type { Database, Transaction } from './database.ts'
import { pausingAfterFailures } from './failure-pauses.ts'
import { endOverdueInChain, endOverdueRuns, type ExpiredRow, listOverdueRuns } from './statements/expiry.ts'
import { closeAnyChain, lockTimerOfAnyChain } from './statements/followers.ts'

const engine = { role: 'belfry_engine' } as const

type Ended = Awaited<ReturnType<OverdueRuns['end']>>

export function createPostgresOverdueRuns(db: Database): OverdueRuns {
  return {
    async list(limit) {
      const rows = await db.run({ ...engine, readOnly: true }, listOverdueRuns, [limit])
      return rows.map((row) => ({ runId: row.run_id, chained: row.chained }))
    },
    async end(runs) {
      const free = runs.filter((run) => !run.chained)
      const parts: Ended[] = []
      if (free.length > 0) parts.push(await endIn(db, free, endFree))
      for (const run of runs) if (run.chained) parts.push(await endIn(db, [run], endChained))
      return {
        ended: parts.flatMap((part) => part.ended),
        paused: parts.flatMap((part) => part.paused),
        timerShards: [...new Set(parts.flatMap((part) => part.timerShards))],
      }
    },
  }
}

interface Written {
  readonly rows: readonly ExpiredRow[]
  readonly timerShards: readonly number[]
}

type Write = (tx: Transaction, runIds: readonly string[]) => Promise<Written>

async function endIn(db: Database, runs: readonly OverdueRun[], write: Write): Promise<Ended> {
  const runIds = runs.map((run) => run.runId)
  const failing = runIds.map((runId) => ({ runId, runState: 'failed' as const }))
  return db.transaction(engine, async (tx) => {
    const { result, paused }: { result: Written; paused: readonly PausedSchedule[] } =
      await pausingAfterFailures(tx, failing, () => write(tx, runIds))
    const { rows, timerShards } = result
    await recordDeadLetters(
      tx,
      rows.map(({ run_id: runId, reason }) => ({
        runId,
        errorCode: reason,
        errorMessage: overdueWords[reason],
        outcome: 'expired',
      })),
    )
    return { ended: rows.map(expiredRun), paused, timerShards }
  })
}

async function endFree(tx: Transaction, runIds: readonly string[]): Promise<Written> {
  const rows = await tx.query(endOverdueRuns, [runIds])
  return { rows, timerShards: rows[0]?.timer_shards ?? [] }
}

async function endChained(tx: Transaction, runIds: readonly string[]): Promise<Written> {
  const [runId = ''] = runIds
  await tx.query(lockTimerOfAnyChain, [runId])
  const rows = await tx.query(endOverdueInChain, [runId])
  const [gone] = rows
  if (gone === undefined) return { rows, timerShards: [] }
  const followers = await tx.query(closeAnyChain, [runId, gone.after_run_id, gone.schedule_id])
  return { rows, timerShards: [...(gone.timer_shards ?? []), ...followers.map((row) => row.shard)] }
}

function expiredRun(row: ExpiredRow): ExpiredRun {
  const { run_id: runId, tenant_id: tenantId, job_id: jobId, queue, reason } = row
  return { runId, tenantId, jobId, queue, reason }
}
