/**
 * Which ends are plain successes (statements/successes.ts), and how they are sent: lists as one text each,
 * made here, because the driver looks at every element of an array by itself.
 */
import type { AppliedEnd, AttemptEnd } from '../ports/run-store.ts'
import type { Database } from './database.ts'
import { endSuccesses } from './statements/successes.ts'

const engine = { role: 'belfry_engine' } as const

export interface SortedEnds {
  /** Of one epoch. */
  readonly successes: readonly AttemptEnd[]
  readonly others: readonly AttemptEnd[]
}

export function sortEnds(ends: readonly AttemptEnd[]): SortedEnds {
  const epoch = ends.find(isPlain)?.leaseEpoch
  const fits = (end: AttemptEnd): boolean => end.leaseEpoch === epoch && isPlain(end)
  if (ends.every(fits)) return { successes: ends, others: [] }
  return { successes: ends.filter(fits), others: ends.filter((end) => !fits(end)) }
}

function isPlain(end: AttemptEnd): boolean {
  return (
    end.outcome === 'succeeded' &&
    end.runState === 'succeeded' &&
    end.httpStatus === null &&
    end.response === null
  )
}

export interface WrittenSuccesses {
  readonly applied: readonly AppliedEnd[]
  readonly timerShards: readonly number[]
  readonly gateTenants: readonly string[]
  readonly nowMs: number
}

export async function writeSuccesses(
  db: Database,
  sessionId: string,
  ends: readonly AttemptEnd[],
): Promise<WrittenSuccesses> {
  const [row] = await db.run(engine, endSuccesses, [
    sessionId,
    ends[0]?.leaseEpoch ?? 0,
    listText(ends, (end) => end.runId),
    listText(ends, (end) => end.startedAtMs),
    listText(ends, (end) => end.endedAtMs),
    listText(ends, (end) => (end.result === undefined ? 'NULL' : quoted(JSON.stringify(end.result)))),
  ])
  const runIds = row?.ended_run_ids ?? ends.map((end) => end.runId)
  return {
    applied: runIds.map((runId) => ({ runId, runState: 'succeeded' })),
    timerShards: row?.timer_shards ?? [],
    gateTenants: row?.gate_tenants ?? [],
    nowMs: row?.now_ms ?? 0,
  }
}

function listText(ends: readonly AttemptEnd[], each: (end: AttemptEnd) => string | number): string {
  return `{${ends.map(each).join(',')}}`
}

function quoted(text: string): string {
  return `"${text.replaceAll(/[\\"]/g, '\\$&')}"`
}
