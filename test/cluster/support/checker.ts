/**
 * The independent checker of cluster tests: reads tables and the target's ledger with SQL and arithmetic of
 * its own and says what is wrong, in words. It uses nothing of the engine.
 */
import type pg from 'pg'

export interface ExpectedSchedule {
  readonly scheduleId: string
  readonly times: readonly number[]
}

/** One call that the target saw. */
export interface LedgerCall {
  readonly runId: string
  readonly idempotencyKey: string
}

export interface CheckInput {
  readonly sql: pg.Client
  readonly expected: readonly ExpectedSchedule[]
  readonly calls: readonly LedgerCall[]
  readonly atMostOnceScheduleIds: ReadonlySet<string>
  /** Schedules that run something else than jobs, which somebody else checks. */
  readonly otherScheduleIds?: ReadonlySet<string>
}

interface OccurrenceRow {
  schedule_id: string
  scheduled_for: Date
  outcome: string
  run_id: string | null
}

const occurrences = 'SELECT schedule_id, scheduled_for, outcome, run_id FROM belfry.occurrence'
const alive = 'SELECT (SELECT count(*) FROM belfry.ready) + (SELECT count(*) FROM belfry.delayed) AS n'
const attempts = `
  SELECT run_id, count(*) FILTER (WHERE run_state IS NOT NULL)::int AS ends,
    count(*) FILTER (WHERE outcome <> 'succeeded')::int AS unsuccessful,
    max(run_state) AS run_state, max(reason) AS reason,
    count(DISTINCT lease_epoch)::int AS epochs, count(*)::int AS n,
    max(lease_epoch)::int AS last_epoch,
    max(lease_epoch) FILTER (WHERE run_state IS NOT NULL)::int AS end_epoch
  FROM belfry.attempt GROUP BY run_id`

/** What stands on record of all attempts of a run. */
export interface AttemptRow {
  run_id: string
  ends: number
  unsuccessful: number
  run_state: string | null
  reason: string | null
  epochs: number
  n: number
  last_epoch: number
  end_epoch: number | null
}

/** By the id of the run. */
export async function readAttempts(sql: pg.Client): Promise<ReadonlyMap<string, AttemptRow>> {
  return new Map((await sql.query<AttemptRow>(attempts)).rows.map((row) => [row.run_id, row]))
}

/** Runs that have not ended yet. */
export async function countAlive(sql: pg.Client): Promise<number> {
  return Number((await sql.query<{ n: string }>(alive)).rows[0]?.n)
}

/** The invariant at the top of migrations/0021_claims.sql; what breaks it would be held for good. */
const heldByNobody = `
  SELECT run_id FROM belfry.ready
  WHERE session_id IS NOT NULL AND settled_by IS DISTINCT FROM session_id AND NOT EXISTS (
    SELECT FROM belfry.claim
    WHERE claim.session_id = ready.session_id AND ready.run_id = ANY (claim.run_ids))`

/** Runs that a session holds without a claim or an index that tells so. It may be asked at any instant. */
export async function findHeldByNobody(sql: pg.Client): Promise<string[]> {
  const { rows } = await sql.query<{ run_id: string }>(heldByNobody)
  return rows.map((row) => `${row.run_id} is held, but neither settled nor in a row of claim`)
}

/** Everything that is wrong; empty when all promises held. */
export async function findFaults(input: CheckInput): Promise<string[]> {
  const others = input.otherScheduleIds ?? new Set()
  const found = (await input.sql.query<OccurrenceRow>(occurrences)).rows
  const rows = found.filter((row) => !others.has(row.schedule_id))
  const ends = await readAttempts(input.sql)
  const faults = [...occurrenceFaults(rows, input.expected)]
  const callsByRun = Map.groupBy(input.calls, (call) => call.runId)
  for (const row of rows) {
    if (row.run_id === null) {
      faults.push(`${name(row)} did not run: ${row.outcome}`)
      continue
    }
    const atMostOnce = input.atMostOnceScheduleIds.has(row.schedule_id)
    faults.push(...runFaults(name(row), ends.get(row.run_id), callsByRun.get(row.run_id) ?? [], atMostOnce))
  }
  const known = new Set(rows.map((row) => row.run_id))
  for (const runId of callsByRun.keys())
    if (!known.has(runId)) faults.push(`the target saw run ${runId}, which has no occurrence`)
  const left = await countAlive(input.sql)
  if (left > 0) faults.push(`${left} runs are still alive`)
  return [...faults, ...(await findHeldByNobody(input.sql))]
}

function name(row: OccurrenceRow): string {
  return `${row.schedule_id} at ${row.scheduled_for.toISOString()}`
}

/** Set of occurrences = expected set, each once. */
function occurrenceFaults(rows: readonly OccurrenceRow[], expected: readonly ExpectedSchedule[]): string[] {
  const wanted = new Set(
    expected.flatMap(({ scheduleId, times }) => times.map((at) => `${scheduleId} ${at}`)),
  )
  const found = rows.map((row) => `${row.schedule_id} ${row.scheduled_for.getTime()}`)
  const foundSet = new Set(found)
  return [
    ...[...wanted].filter((key) => !foundSet.has(key)).map((key) => `no occurrence: ${key}`),
    ...found.filter((key) => !wanted.has(key)).map((key) => `nobody planned: ${key}`),
    ...(found.length === foundSet.size ? [] : ['an occurrence is there twice']),
  ]
}

/** What is wrong with one run, by what is on record and what the target saw. */
export function runFaults(
  what: string,
  end: AttemptRow | undefined,
  calls: readonly LedgerCall[],
  atMostOnce: boolean,
): string[] {
  if (end === undefined) return [`${what} was never attempted`]
  const faults: string[] = []
  if (end.ends !== 1) faults.push(`${what} ended ${end.ends} times`)
  if (end.epochs !== end.n) faults.push(`${what} has two attempts under one lease epoch`)
  if (end.end_epoch !== null && end.end_epoch < end.last_epoch)
    faults.push(`${what} ended under epoch ${end.end_epoch}, after epoch ${end.last_epoch} was given out`)
  if (new Set(calls.map((call) => call.idempotencyKey)).size > 1)
    faults.push(`${what} came with several keys`)
  if (atMostOnce) {
    if (calls.length > 1) faults.push(`${what} is at most once and was called ${calls.length} times`)
    if (end.run_state !== 'succeeded' && end.reason !== 'outcome_unknown') {
      faults.push(`${what} is at most once and ended ${end.run_state}, reason ${end.reason}`)
    }
    return faults
  }
  if (calls.length === 0) faults.push(`${what} never reached the target`)
  if (end.run_state !== 'succeeded') faults.push(`${what} ended ${end.run_state}, reason ${end.reason}`)
  // every call beyond the first needs an attempt on record that did not succeed: lost, released or failed
  if (calls.length - 1 > end.unsuccessful) {
    faults.push(
      `${what} was called ${calls.length} times, but only ${end.unsuccessful} attempts on record explain it`,
    )
  }
  return faults
}
