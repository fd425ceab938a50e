/**
 * The checker of chaos cells: with SQL and arithmetic of its own it compares what was asked for, what stands
 * in the tables and what the target saw, and says what is wrong, in words. Of the engine it uses nothing but
 * how the states of a workflow are packed (workflow-checker.ts).
 *
 *   schedules   support/checker.ts
 *   workflows   one workflow run for each planned time; each run by support/workflow-checker.ts
 *   runs that were asked for   here: one run for each that was accepted, its end, its calls, its parents
 *   calls       each is of a run, and of an attempt, that is on record; a success was seen at the target
 *   afterwards  nothing waits, nothing is due
 *   lateness    here: of the first call of each run; none is early, none is later than the cell promises
 */
import type pg from 'pg'
import type { RecordedCall } from '../support/ledger.ts'
import { type AttemptRow, findFaults, readAttempts, runFaults } from '../support/checker.ts'
import { findWorkflowFaults } from '../support/workflow-checker.ts'
import type { DrawnWorkflow } from '../../support/drawn-workflow.ts'
import { findLateness, type Lateness } from './lateness.ts'
import type { AskedRun, Load } from './load.ts'

export interface ChaosRecord {
  readonly sql: pg.Client
  readonly load: Omit<Load, 'ask'>
  readonly calls: readonly RecordedCall[]
  /** What the cell promises: no first call later than this after its run was due. */
  readonly lateMs: number
}

export interface Verdict {
  readonly faults: readonly string[]
  readonly worst: Lateness | undefined
  readonly runs: number
  /** Attempts that were lost with their worker. */
  readonly lost: number
}

/** Clocks of the target and of the database are the same; a call may be on its way. */
const earlyMs = 5

export async function judge(record: ChaosRecord): Promise<Verdict> {
  const { sql, load, calls } = record
  const to = (...paths: readonly string[]) => calls.filter((call) => paths.includes(call.path))
  const attempts = await readAttempts(sql)
  const workflows = await readWorkflowRuns(record)
  const faults = [
    ...load.refused,
    ...(await findFaults({
      sql,
      expected: load.expected,
      calls: to('/work'),
      atMostOnceScheduleIds: load.atMostOnce,
      otherScheduleIds: new Set(load.workflows.map(({ scheduleId }) => scheduleId)),
    })),
    ...workflows.faults,
    ...(await findWorkflowFaults({ sql, begun: workflows.begun, calls: to('/task', '/busy') })),
    ...(await askedFaults(record, attempts, to('/asked'))),
    ...(await callFaults(sql, calls, attempts)),
    ...(await leftovers(sql)),
  ]
  const late = await findLateness(sql, calls, workflows.begun)
  for (const { what, lateMs } of late.all) {
    if (lateMs < -earlyMs) faults.push(`${what} was called ${-lateMs} ms before it was due`)
    if (lateMs > record.lateMs) faults.push(`${what} was called ${lateMs} ms late, not ${record.lateMs}`)
  }
  const lost = await sql.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  return { faults, worst: late.worst, runs: attempts.size, lost: lost.rows[0]?.n ?? 0 }
}

/** One workflow run for each planned time, and none besides. */
async function readWorkflowRuns({ sql, load }: ChaosRecord) {
  const faults: string[] = []
  const begun = new Map<string, DrawnWorkflow>()
  for (const { scheduleId, times, drawn } of load.workflows) {
    const { rows } = await sql.query<{ at: number; outcome: string; run_id: string | null; n: number }>(
      `SELECT (extract(epoch FROM o.scheduled_for) * 1000)::float8 AS at, o.outcome, o.run_id,
         (SELECT count(*)::int FROM belfry.workflow_run w
          WHERE w.schedule_id = o.schedule_id AND w.scheduled_for = o.scheduled_for) AS n
       FROM belfry.occurrence o WHERE o.schedule_id = $1`,
      [scheduleId],
    )
    const found = new Map(rows.map((row) => [row.at, row]))
    for (const at of times) {
      const row = found.get(at)
      const what = `workflow ${scheduleId} at ${at}`
      if (row === undefined) faults.push(`no occurrence: ${what}`)
      else if (row.run_id === null) faults.push(`${what} did not run: ${row.outcome}`)
      else if (row.n !== 1) faults.push(`${what} was begun ${row.n} times`)
      else begun.set(row.run_id, drawn)
    }
    for (const at of found.keys())
      if (!times.includes(at)) faults.push(`nobody planned: workflow ${scheduleId} at ${at}`)
    if (found.size !== rows.length) faults.push(`an occurrence of workflow ${scheduleId} is there twice`)
  }
  return { faults, begun }
}

async function askedFaults(
  { sql, load }: ChaosRecord,
  attempts: ReadonlyMap<string, AttemptRow>,
  calls: readonly RecordedCall[],
): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>('SELECT id FROM belfry.run WHERE job_id = ANY($1)', [
    load.askedJobIds,
  ])
  const known = new Set(load.asked.map(({ runId }) => runId))
  const found = new Set(rows.map(({ id }) => id))
  const callsOf = Map.groupBy(calls, ({ runId }) => runId)
  const faults = [
    ...(known.size === load.asked.length ? [] : ['one run was answered to two that asked']),
    // a request that never got an answer may have made one
    ...(load.refused.length > 0 ? [] : [...found].filter((id) => !known.has(id))).map(
      (id) => `run ${id} was made, and nobody was told of it`,
    ),
  ]
  const ends = await endsOf(sql, [...known])
  for (const run of load.asked) {
    const what = `asked ${run.runId}`
    const its = callsOf.get(run.runId) ?? []
    if (!found.has(run.runId)) faults.push(`${what} was accepted and is lost`)
    faults.push(...runFaults(what, attempts.get(run.runId), its, run.atMostOnce))
    faults.push(...orderFaults(what, run, its, ends))
  }
  return faults
}

/** When runs ended, epoch ms. */
async function endsOf(sql: pg.Client, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ run_id: string; ms: number }>(
    `SELECT run_id, (extract(epoch FROM ended_at) * 1000)::float8 AS ms FROM belfry.attempt
     WHERE run_state IS NOT NULL AND run_id = ANY($1)`,
    [ids],
  )
  return new Map(rows.map(({ run_id, ms }) => [run_id, ms]))
}

function orderFaults(
  what: string,
  { parentIds, notBeforeMs }: AskedRun,
  calls: readonly RecordedCall[],
  ends: ReadonlyMap<string, number>,
): string[] {
  const firstMs = Math.min(...calls.map(({ atMs }) => atMs))
  const early = parentIds.filter((id) => firstMs + earlyMs < (ends.get(id) ?? Infinity))
  return [
    ...early.map((id) => `${what} was called before ${id} had ended, on which it depends`),
    ...(firstMs + earlyMs < notBeforeMs ? [`${what} was called before its time`] : []),
  ]
}

async function callFaults(
  sql: pg.Client,
  calls: readonly RecordedCall[],
  attempts: ReadonlyMap<string, AttemptRow>,
): Promise<string[]> {
  const { rows } = await sql.query<{ run_id: string; number: number; outcome: string }>(
    'SELECT run_id, number, outcome FROM belfry.attempt',
  )
  const recorded = new Set(rows.map(({ run_id, number }) => `${run_id} ${number}`))
  const seen = new Set(calls.map(({ runId, attempt }) => `${runId} ${attempt}`))
  return [
    ...calls
      .filter(({ runId }) => !attempts.has(runId))
      .map(({ runId }) => `the target saw run ${runId}, of which no attempt is on record`),
    ...calls
      .filter(({ runId, attempt }) => attempts.has(runId) && !recorded.has(`${runId} ${attempt}`))
      .map(
        ({ runId, attempt }) => `the target saw attempt ${attempt} of run ${runId}, which is not on record`,
      ),
    ...rows
      .filter(({ run_id, number, outcome }) => outcome === 'succeeded' && !seen.has(`${run_id} ${number}`))
      .map(
        ({ run_id, number }) => `attempt ${number} of run ${run_id} succeeded, and the target never saw it`,
      ),
  ]
}

const places = ['timer', 'workflow_progress', 'workflow_event', 'dependency_event', 'task_run'] as const

/** Of what the other checkers do not look at. */
async function leftovers(sql: pg.Client): Promise<string[]> {
  const counts = places.map((place) => `(SELECT count(*)::int FROM belfry.${place}) AS ${place}`)
  const { rows } = await sql.query<Record<string, number>>(`SELECT ${counts.join(', ')}`)
  return places.flatMap((place) => {
    const left = rows[0]?.[place] ?? 0
    return left === 0 ? [] : [`${left} rows are left in ${place}`]
  })
}
