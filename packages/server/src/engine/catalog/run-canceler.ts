/**
 * Cancels runs, wherever each of them stands: at once while it waits, by its worker while it runs. A run may
 * move on between two statements: claimed, handed back, released from its delay. Each look takes it where it
 * stands then; what is found neither waiting nor running has ended.
 */
import type { Hint } from '../../ports/hints.ts'
import type { RunCancels } from '../../ports/run-cancels.ts'
import { backfillHint } from '../backfill-hints.ts'
import { hintOfShard } from '../timer-hints.ts'

/** How often it is looked again at runs that move on between two looks. */
const mostLooks = 5

export interface CanceledRuns {
  /** Waited, and have ended now. */
  readonly canceled: number
  /** Run; their workers are asked to stop them. */
  readonly asked: number
  /** Neither, in every look: ended, or moving on all the time. */
  readonly missed: readonly string[]
  /** To be made known after the commit. */
  readonly hints: readonly Hint[]
}

export async function cancelRuns(
  cancels: RunCancels,
  runIds: readonly string[],
  reason: string | undefined,
): Promise<CanceledRuns> {
  const canceled: string[] = []
  const asked: string[] = []
  const sessions = new Set<string>()
  const shards = new Set<number>()
  let left = runIds
  for (let look = 0; look < mostLooks && left.length > 0; look++) {
    const ended = await cancels.cancelWaiting(left)
    canceled.push(...ended.canceledIds)
    for (const shard of ended.timerShards) shards.add(shard)
    const told = await cancels.requestCancels(without(left, ended.canceledIds))
    for (const { runId, sessionId } of told) {
      asked.push(runId)
      sessions.add(sessionId)
    }
    left = without(
      left,
      ended.canceledIds,
      told.map(({ runId }) => runId),
    )
  }
  const reached = [...canceled, ...asked]
  if (reason !== undefined && reached.length > 0) await cancels.note(reached, reason)
  const schedules = canceled.length === 0 ? [] : await cancels.backfilledSchedules(canceled)
  const hints: Hint[] = [
    ...[...sessions].map((key) => ({ topic: 'cancel', key }) as const),
    ...[...shards].map(hintOfShard),
    ...schedules.map(backfillHint),
  ]
  return { canceled: canceled.length, asked: asked.length, missed: left, hints }
}

function without(ids: readonly string[], ...gone: readonly (readonly string[])[]): readonly string[] {
  const set = new Set(gone.flat())
  return ids.filter((id) => !set.has(id))
}
