/**
 * Rounds over runs that depend on others, on Postgres. What makes one safe stands in ports/dependencies.ts
 * and with its statements.
 */
import type { TriggerRule } from '@belfry/contract'
import type { DependencyState } from '../domain/dependencies.ts'
import type {
  Dependencies,
  DependencyRound,
  JudgedRun,
  JudgeWaiting,
  WaitingRun,
} from '../ports/dependencies.ts'
import type { Database, Transaction } from './database.ts'
import * as statements from './statements/dependencies.ts'

const engine = { role: 'belfry_engine' } as const
const firstId = '00000000-0000-0000-0000-000000000000'

export function createPostgresDependencies(db: Database): Dependencies {
  let mended: readonly [tenantId: string, runId: string] = [firstId, firstId]
  return {
    round: (limit, judge, taken) =>
      db.transaction(engine, async (tx) => {
        const childIds = idsOf(await tx.query(statements.takeDependencyEvents, [limit]))
        taken(childIds)
        return roundWithin(tx, childIds, judge)
      }),
    roundOf: (runIds, judge) =>
      db.transaction(engine, async (tx) =>
        roundWithin(tx, idsOf(await tx.query(statements.takeEventsOfRuns, [runIds])), judge),
      ),
    async putOff(runId, ms) {
      await db.run(engine, statements.putOffDependencyEvents, [runId, ms])
    },
    async mend(limit) {
      const [last] = await db.run(engine, statements.mendDependencies, [...mended, limit])
      mended = last === undefined ? [firstId, firstId] : [last.tenant_id, last.run_id]
    },
  }
}

const idsOf = (rows: readonly { readonly child_id: string }[]) => rows.map((row) => row.child_id)

async function roundWithin(
  tx: Transaction,
  childIds: readonly string[],
  judge: JudgeWaiting,
): Promise<DependencyRound> {
  const none = { looked: childIds.length, unsure: 0, released: 0, ended: [], shards: [] }
  if (childIds.length === 0) return none
  const waiting = await lookAt(tx, childIds)
  if (waiting.length === 0) return none
  const judged = judge(waiting)
  const decided = new Set(judged.map(({ id }) => id))
  const unsure = waiting.filter((run) => run.unsure && !decided.has(run.id)).map(({ id }) => id)
  if (unsure.length > 0) await tx.query(statements.lookAgainAtWaitingRuns, [unsure])
  return { ...none, unsure: unsure.length, ...(await carryOut(tx, judged)) }
}

async function lookAt(tx: Transaction, childIds: readonly string[]): Promise<WaitingRun[]> {
  const open = await tx.query(statements.listOpenDependencies, [childIds])
  const parents = open.map((row) => row.parent_id)
  if (parents.length > 0) await tx.query(statements.markReadyParents, [parents])
  const held = await tx.query(statements.holdWaitingRuns, [childIds, parents])
  if (held.length === 0) return []
  const rows = await tx.query(statements.settleDependencies, [held.map((row) => row.run_id)])
  return held.map(({ run_id: id, rule }) => {
    const its = rows.filter((row) => row.child_id === id)
    return {
      id,
      rule: rule as TriggerRule,
      states: new Map(its.map((row) => [row.state as DependencyState, row.count])),
      unsure: its.some((row) => row.unsure),
    }
  })
}

async function carryOut(
  tx: Transaction,
  judged: readonly JudgedRun[],
): Promise<Pick<DependencyRound, 'released' | 'ended' | 'shards'>> {
  const free = judged.filter(({ verdict }) => verdict.kind === 'run').map(({ id }) => id)
  const ends = judged.flatMap(({ id, verdict }) => (verdict.kind === 'end' ? [{ id, ...verdict }] : []))
  const released = free.length === 0 ? [] : await tx.query(statements.releaseWaitingRuns, [free])
  const gone =
    ends.length === 0
      ? []
      : await tx.query(statements.endWaitingRuns, [
          ends.map(({ id }) => id),
          ends.map(({ state }) => state),
          ends.map(({ reason }) => reason),
          ends.map(({ message }) => message),
        ])
  const byId = new Map(ends.map((end) => [end.id, end]))
  return {
    released: released.length,
    ended: gone.flatMap((row) => {
      const end = byId.get(row.run_id)
      if (end === undefined) return []
      const { run_id: runId, tenant_id: tenantId, job_id: jobId, queue } = row
      return [{ runId, tenantId, jobId, queue, state: end.state, reason: end.reason }]
    }),
    shards: [...new Set([...released.map(({ shard }) => shard), ...(gone[0]?.shards ?? [])])],
  }
}
