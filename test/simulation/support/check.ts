// What must hold of every simulated world, whatever went wrong in it: read from the tables by SQL of its own
// and from the ledger of the target, and said in words. It uses nothing of the engine.
import type pg from 'pg'
import { unpackStates } from '../../../packages/server/src/domain/workflow/stored-states.ts'
import type { FaultPlan } from './faults.ts'
import type { Asked, AskedRun } from './load.ts'
import type { Call } from './target.ts'
import type { WorldDatabase } from './world-database.ts'

export interface Check {
  readonly database: WorldDatabase
  readonly asked: Asked
  readonly calls: readonly Call[]
  readonly plan: FaultPlan
  /** In a world without faults everything starts within this of its time, or of when a slot is free. */
  readonly calmLateMs: number
  /** Slots of all workers. */
  readonly slots: number
  /** Who moved timers, and who held their shards at that moment. */
  readonly fires: readonly Fire[]
  /** All came to its end in time. */
  readonly isOver: boolean
}

export interface Fire {
  readonly node: string
  readonly atMs: number
  /** Of the shards of the timers that were moved: that of another. */
  readonly foreignShards: readonly number[]
}

interface OccurrenceRow extends pg.QueryResultRow {
  readonly schedule_id: string
  readonly scheduled_ms: number
  readonly outcome: string
  readonly run_id: string | null
}

interface AttemptRow extends pg.QueryResultRow {
  readonly run_id: string
  readonly number: number
  readonly outcome: string
  readonly run_state: string | null
  readonly reason: string | null
  readonly lease_epoch: number
  readonly session_id: string | null
  readonly response: string | null
}

interface RunRow extends pg.QueryResultRow {
  readonly id: string
  readonly job_id: string
  readonly workflow_run_id: string | null
  readonly task: number | null
  readonly due_ms: number
}

const occurrences = `
  SELECT schedule_id, (extract(epoch FROM scheduled_for) * 1000)::float8 AS scheduled_ms, outcome, run_id
  FROM belfry.occurrence`
const attempts = `
  SELECT run_id, number, outcome, run_state, reason, lease_epoch::int, session_id, response
  FROM belfry.attempt ORDER BY run_id, number`
const runs = `
  SELECT id, job_id, workflow_run_id, task, (extract(epoch FROM due_at) * 1000)::float8 AS due_ms
  FROM belfry.run`
const leftovers = `
  SELECT 'a ready run' AS what, run_id AS id FROM belfry.ready
  UNION ALL SELECT 'a delayed run', run_id FROM belfry.delayed
  UNION ALL SELECT 'a timer', schedule_id FROM belfry.timer
  UNION ALL SELECT 'a slot', run_id FROM belfry.slot WHERE NOT freed
  UNION ALL SELECT 'progress of a workflow run', workflow_run_id FROM belfry.workflow_progress`

interface Found {
  readonly check: Check
  readonly occurrences: readonly OccurrenceRow[]
  readonly attempts: ReadonlyMap<string, readonly AttemptRow[]>
  readonly runs: readonly RunRow[]
  readonly calls: ReadonlyMap<string, readonly Call[]>
}

/** Everything that is wrong; empty when all promises held. */
export async function findFaults(check: Check): Promise<string[]> {
  const { database, calls } = check
  const found: Found = {
    check,
    occurrences: await database.sql<OccurrenceRow>(occurrences),
    attempts: Map.groupBy(await database.sql<AttemptRow>(attempts), ({ run_id }) => run_id),
    runs: await database.sql<RunRow>(runs),
    calls: Map.groupBy(calls, ({ runId }) => runId),
  }
  const left = await database.sql<{ what: string; id: string }>(leftovers)
  return [
    ...(check.isOver ? [] : ['not all has ended in time']),
    ...left.map(({ what, id }) => `${what} is left: ${id}`),
    ...plannedTimes(found),
    ...askedRuns(found),
    ...found.runs.flatMap((run) => ofRun(found, run)),
    ...oneAtATime(found),
    ...check.fires.flatMap(({ node, foreignShards }) =>
      foreignShards.map((shard) => `${node} fired in shard ${shard}, which another holds`),
    ),
    ...(await ofWorkflows(found)),
  ]
}

/** Every planned time has exactly one occurrence, and each of those a run. */
function plannedTimes({ check, occurrences: rows, runs: known }: Found): string[] {
  const wanted = new Set(check.asked.schedules.flatMap(({ id, times }) => times.map((at) => `${id} ${at}`)))
  const made = rows.map((row) => `${row.schedule_id} ${row.scheduled_ms}`)
  const ids = new Set(known.map(({ id }) => id))
  return [
    ...[...wanted].filter((key) => !made.includes(key)).map((key) => `no occurrence for ${key}`),
    ...made.filter((key) => !wanted.has(key)).map((key) => `nobody planned ${key}`),
    ...(new Set(made).size === made.length ? [] : ['an occurrence is there twice']),
    ...rows.filter((row) => row.outcome !== 'ran').map((row) => `${row.schedule_id} did not run`),
    ...rows
      .filter((row) => row.run_id !== null && !ids.has(row.run_id))
      .map((row) => `the run of an occurrence is gone: ${row.run_id}`),
  ]
}

/** What was acknowledged is there, and nothing that nobody asked for. */
function askedRuns({ check, runs: known, occurrences: fired }: Found): string[] {
  const ids = new Set(known.map(({ id }) => id))
  const asked = new Set([...check.asked.runs.map(({ id }) => id), ...fired.map((row) => row.run_id)])
  return [
    ...check.asked.runs.filter(({ id }) => !ids.has(id)).map(({ id }) => `run ${id} is lost`),
    ...known
      .filter(({ id, workflow_run_id }) => !asked.has(id) && workflow_run_id === null)
      .map(({ id }) => `nobody asked for run ${id}`),
  ]
}

function ofRun(found: Found, run: RunRow): string[] {
  const { check } = found
  const tries = found.attempts.get(run.id) ?? []
  const calls = found.calls.get(run.id) ?? []
  const what = `run ${run.id} (${check.asked.jobOf(run.job_id)})`
  const asked = check.asked.runs.find(({ id }) => id === run.id)
  const faults = [
    ...ends(tries),
    ...leases(tries, calls),
    ...deliveries(check.asked.jobOf(run.job_id), tries, calls),
    ...(asked === undefined ? [] : parents(found, asked, calls)),
  ]
  const [first] = calls
  const lateMs = first === undefined ? 0 : first.atMs - Math.max(run.due_ms, fullUntilMs(check, first.atMs))
  const waits = run.workflow_run_id !== null || (asked?.parents.length ?? 0) > 0
  if (check.plan.calm && !waits && lateMs > check.calmLateMs && check.asked.jobOf(run.job_id) !== 'serial')
    faults.push(`began ${lateMs.toFixed(0)} ms late, although nothing went wrong`)
  return faults.map((fault) => `${what} ${fault}`)
}

/** Until when all slots were taken, last before this time; -Infinity if they never were. */
function fullUntilMs({ calls, slots }: Check, beforeMs: number): number {
  const underWay = (atMs: number) => calls.filter((call) => call.atMs < atMs && call.endMs >= atMs).length
  const ends = calls.map(({ endMs }) => endMs).filter((endMs) => endMs <= beforeMs)
  return Math.max(-Infinity, ...ends.filter((endMs) => underWay(endMs) >= slots))
}

function ends(tries: readonly AttemptRow[]): string[] {
  const last = tries.at(-1)
  const faults: string[] = []
  const count = tries.filter((row) => row.run_state !== null).length
  if (count !== 1) faults.push(`has ended ${count} times`)
  else if (last?.run_state === null) faults.push('was tried again after its end')
  return faults
}

/** Each call stands under a lease of its own, and what is on record is what the holder of the lease saw. */
function leases(tries: readonly AttemptRow[], calls: readonly Call[]): string[] {
  const faults: string[] = []
  const byEpoch = new Map(calls.map((call) => [call.leaseEpoch, call]))
  if (byEpoch.size !== calls.length) faults.push('was called twice under one lease')
  const onRecord = new Map(tries.map((row) => [row.lease_epoch, row]))
  if (onRecord.size !== tries.length) faults.push('has two attempts under one lease')
  for (const { leaseEpoch, idempotencyKey, runId } of calls) {
    if (!onRecord.has(leaseEpoch))
      faults.push(`was called under lease ${leaseEpoch}, of which nothing is on record`)
    if (idempotencyKey !== runId) faults.push(`came with the key ${idempotencyKey}`)
  }
  for (const { lease_epoch: epoch, outcome, response, session_id: session } of tries) {
    const call = byEpoch.get(epoch)
    if (call === undefined) {
      if (outcome === 'succeeded') faults.push(`succeeded under lease ${epoch} without a call`)
      continue
    }
    if (session !== null && session !== call.sessionId)
      faults.push(`has an attempt of ${session} under the lease of ${call.sessionId}`)
    if (outcome === 'succeeded' && call.outcome !== 'succeeded')
      faults.push(`succeeded under lease ${epoch}, although its call failed`)
    if (response !== null && response !== `call ${call.number}`)
      faults.push(`has the answer of ${response} under the lease of call ${call.number}`)
  }
  return faults
}

function deliveries(job: string, tries: readonly AttemptRow[], calls: readonly Call[]): string[] {
  const last = tries.at(-1)
  if (last === undefined || last.run_state === null) return []
  const { run_state: state, reason } = last
  const lost = tries.filter(({ outcome }) => outcome === 'lost').length
  if (job === 'most') {
    return [
      ...(calls.length > 1 ? [`may be called once, and was called ${calls.length} times`] : []),
      ...(state === 'succeeded' || reason === 'outcome_unknown' ? [] : [`ended ${state}, ${reason}`]),
    ]
  }
  if (calls.length === 0) return ['was never called']
  if (job === 'breaks') return state === 'failed' ? [] : [`ended ${state}`]
  if (state === 'succeeded' || (reason === 'quarantined' && lost >= 3)) return []
  return [`ended ${state}, ${reason}, with ${lost} attempts lost`]
}

/** It begins after all it waits for is over. */
function parents(found: Found, asked: AskedRun, calls: readonly Call[]): string[] {
  const [first] = calls
  if (first === undefined) return []
  return asked.parents.flatMap((id) => {
    const last = found.attempts.get(id)?.at(-1)
    const call = found.calls.get(id)?.find(({ leaseEpoch }) => leaseEpoch === last?.lease_epoch)
    if (last?.run_state === undefined || last.run_state === null) return [`began, and ${id} has not ended`]
    // of an attempt that was lost nobody knows how long the call went on
    if (call === undefined || last.outcome === 'lost' || first.atMs >= call.endMs) return []
    return [`began before ${id} was over`]
  })
}

/** Calls of a job that runs one at a time, but for those whose lease was lost. */
function oneAtATime({ check, attempts: tries }: Found): string[] {
  const held = check.calls
    .filter(({ job, runId, leaseEpoch }) => {
      const own = tries.get(runId)?.find((row) => row.lease_epoch === leaseEpoch)
      return job === 'serial' && own !== undefined && own.outcome !== 'lost' && own.outcome !== 'released'
    })
    .toSorted((one, other) => one.atMs - other.atMs)
  return held.flatMap((call, index) => {
    const before = held[index - 1]
    if (before === undefined || before.endMs <= call.atMs) return []
    return [`runs ${before.runId} and ${call.runId} of a job that runs one at a time were called together`]
  })
}

/** Each task that had to start has one run, and each workflow run came to what it had to come to. */
async function ofWorkflows({ check, runs: known, attempts: tries, calls }: Found): Promise<string[]> {
  if (check.asked.workflows.size === 0) return []
  const rows = await check.database.sql<{ id: string; state: string | null; states: Buffer | null }>(
    'SELECT id, state, states FROM belfry.workflow_run',
  )
  const quarantined = [...tries.values()].some((list) => list.at(-1)?.reason === 'quarantined')
  return [...check.asked.workflows].flatMap(([id, { definition, parents: waitsFor, expected }]) => {
    const row = rows.find((each) => each.id === id)
    if (row === undefined || row.state === null || row.states === null)
      return [`workflow run ${id} has not ended`]
    // then a task failed that was not to fail
    if (quarantined) return []
    const tasks = [...definition.tasks, ...definition.onFailure, ...definition.finally]
    const states = unpackStates(row.states)
    const faults =
      row.state === expected.run ? [] : [`workflow run ${id} is ${row.state}, not ${expected.run}`]
    for (const [index, task] of tasks.entries()) {
      const its = known.filter((run) => run.workflow_run_id === id && run.task === index)
      const wanted = expected.starts.has(task.id) ? 1 : 0
      if (its.length !== wanted)
        faults.push(`${id} ${task.id} was started ${its.length} times, not ${wanted}`)
      if (states[index] !== expected.states[task.id])
        faults.push(`${id} ${task.id} is ${states[index]}, not ${String(expected.states[task.id])}`)
      const begunMs = Math.min(...its.flatMap((run) => calls.get(run.id)?.map(({ atMs }) => atMs) ?? []))
      const waits = early.has(task.rule) ? [] : (waitsFor[index] ?? [])
      for (const parent of waits) {
        const parentRun = known.find((run) => run.workflow_run_id === id && run.task === parent)
        const last = parentRun && calls.get(parentRun.id)?.at(-1)
        if (last !== undefined && last.outcome !== 'failed' && last.endMs > begunMs)
          faults.push(`${id} ${task.id} began before its parents were over`)
      }
    }
    return faults
  })
}

/** Rules that may let a task start while parents are still at work. */
const early: ReadonlySet<string> = new Set(['always', 'one_failed', 'one_success', 'one_done'])
