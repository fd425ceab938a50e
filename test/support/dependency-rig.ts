// Runs that depend on others on the real tables: children are asked for as the API does it, parents are
// claimed and ended by a session, and rounds can be stopped between any two of their statements.
import type { TriggerRule } from '@belfry/contract'
import { createDependencyResolver } from '../../packages/server/src/engine/dependency-resolver.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import type { RunIntake } from '../../packages/server/src/ports/run-intake.ts'
import { createRunIntake } from '../../packages/server/src/postgres/catalog/run-intake.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { statement } from '../../packages/server/src/postgres/statement.ts'
import { cancelWaitingRuns } from '../../packages/server/src/postgres/statements/run-cancels.ts'
import { createPostgresDependencies } from '../../packages/server/src/postgres/dependencies.ts'
import { realClock, realRandom } from './real-clock.ts'
import {
  createRunningFixture,
  newId,
  recordEvents,
  recordHints,
  retriedEnd,
  type RunningFixture,
  succeededEnd,
  type TestJob,
} from './running.ts'

export type ParentMove = 'succeed' | 'fail' | 'retry'
/** The last two: of a run that waits for its next attempt. */
export type SlowMove = ParentMove | 'cancel' | 'release'

export interface UnderWay {
  /** It has done all but its commit. */
  readonly stored: Promise<void>
  readonly commit: () => void
  readonly done: Promise<unknown>
}

export async function openDependencyRig() {
  const fixture = await createRunningFixture()
  const db = fixture.database.open({ maxConnections: 6 })
  const job = await fixture.addJob()
  const sessionId = await fixture.openSession(600_000)
  const hints = recordHints()
  const events = recordEvents()
  const resolverOn = (on: Database) =>
    createDependencyResolver({
      clock: realClock,
      random: realRandom,
      hints,
      events,
      dependencies: createPostgresDependencies(on),
    })
  const resolver = resolverOn(db)

  const claim = () => claimHeld(fixture, sessionId)

  async function move(runId: string, how: ParentMove, store = fixture.store): Promise<void> {
    const leaseEpoch = (await claim()).get(runId)
    if (leaseEpoch === undefined) throw new Error(`${runId} is not held.`)
    const end = succeededEnd({ runId, leaseEpoch })
    const failed = { ...end, outcome: 'failed', runState: 'failed', reason: 'not_retryable' } as const
    const retried = retriedEnd({ runId, leaseEpoch })
    await store.complete(sessionId, [how === 'succeed' ? end : how === 'fail' ? failed : retried])
  }

  const moveSlowly = createSlowMoves(fixture, db, move)

  return {
    fixture,
    db,
    job,
    hints,
    events,
    resolver,
    resolverOn,
    claim,
    /** Runs that are being executed. */
    async parents(count: number): Promise<string[]> {
      const ids = await fixture.addRuns(job, count)
      await claim()
      return ids
    },
    child: (runIds: readonly string[], rule: TriggerRule = 'none_failed_min_one_success') =>
      db.transaction({ role: 'belfry_app', tenantId: fixture.tenantId }, (tx) =>
        insertChild(createRunIntake(tx, fixture.tenantId), job, runIds, rule),
      ),
    move: (runId: string, how: ParentMove) => move(runId, how),
    moveSlowly,
    /** From its retry delay back to `ready`, as the scheduler does it. */
    release: (runId: string) => fixture.database.sql(releaseNow.text, [runId]),
    standing: (runId: string) => standingOf(fixture, runId),
    leftovers: () => fixture.database.sql('SELECT child_id FROM belfry.dependency_event'),
    close: () => fixture.drop(),
  }
}
export type DependencyRig = Awaited<ReturnType<typeof openDependencyRig>>

/** Claims all that is ready; answers the lease of each. */
async function claimHeld(fixture: RunningFixture, sessionId: string): Promise<Map<string, number>> {
  const wanted = { sessionId, shares: [{ queue: 'default', minTag: -Infinity, limit: 500 }] }
  while (
    (await fixture.queue.claim({ ...wanted, routes: ['http'], deadlineMarginMs: 60_000 })).runs.length > 0
  );
  const held = await fixture.database.sql<{ run_id: string; lease_epoch: number }>(
    'SELECT run_id, lease_epoch::int FROM belfry.ready WHERE session_id = $1',
    [sessionId],
  )
  return new Map(held.map((row) => [row.run_id, row.lease_epoch]))
}

/** Moves that do not commit until they are told to. */
function createSlowMoves(
  fixture: RunningFixture,
  db: Database,
  move: (runId: string, how: ParentMove, store: RunStore) => Promise<void>,
) {
  return (runId: string, how: SlowMove): UnderWay => {
    const stored = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const slow = committingLate(db, stored.resolve, goOn.promise)
    const app = { role: 'belfry_app', tenantId: fixture.tenantId } as const
    const done =
      how === 'cancel'
        ? slow.run(app, cancelWaitingRuns, [[runId]])
        : how === 'release'
          ? slow.run({ role: 'belfry_engine' }, releaseNow, [runId])
          : move(
              runId,
              how,
              createPostgresRunStore({
                db: how === 'fail' ? { ...slow, run: db.run } : slow,
                heartbeats: db,
              }),
            )
    return { stored: stored.promise, commit: () => goOn.resolve(), done }
  }
}

async function insertChild(
  intake: RunIntake,
  job: TestJob,
  runIds: readonly string[],
  rule: TriggerRule,
): Promise<string> {
  const { definition } = job
  const template = { jobId: job.id, jobName: 'j', jobVersion: 1, definition, limited: false, tenantWeight: 1 }
  const id = newId()
  await intake.insert([
    {
      id,
      template,
      scheduleId: null,
      scheduledForMs: null,
      source: 'manual',
      queue: 'default',
      priority: 0,
      input: undefined,
      dueAtMs: Date.now(),
      startByMs: null,
      runDeadlineMs: null,
      start: { kind: 'waiting', runIds, rule },
    },
  ])
  return id
}

const releaseNow = statement<unknown, [runId: string]>(
  'test_release_now',
  `WITH gone AS (DELETE FROM belfry.delayed WHERE run_id = $1 RETURNING *)
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, lease_epoch, attempt, crash_count, failure_count, followed)
     SELECT run_id, tenant_id, job_id, job_version, queue, handler, 1, priority, belfry.now(), timeout_ms,
       lease_epoch, attempt, crash_count, failure_count, followed FROM gone`,
)

/** `free`: due now, for the scheduler to let in. */
async function standingOf({ database }: RunningFixture, runId: string): Promise<string> {
  const rows = await database.sql<{ standing: string }>(
    `SELECT CASE WHEN depends_rule IS NOT NULL THEN 'waits' WHEN due_at <= belfry.now() THEN 'free'
                 ELSE 'later' END AS standing FROM belfry.delayed WHERE run_id = $1
     UNION ALL SELECT 'ready' FROM belfry.ready WHERE run_id = $1
     UNION ALL SELECT run_state || '/' || reason FROM belfry.attempt
     WHERE run_id = $1 AND run_state IS NOT NULL`,
    [runId],
  )
  return rows.map((row) => row.standing).join(' and ')
}

/** What is written waits for its commit: all is done, and others do not see it. */
function committingLate(db: Database, stored: () => void, goOn: Promise<void>): Database {
  const transaction: Database['transaction'] = (scope, work) =>
    db.transaction(scope, async (tx) => {
      const result = await work(tx)
      stored()
      await goOn
      return result
    })
  return {
    ...db,
    transaction,
    run: (scope, asked, params) => transaction(scope, (tx) => tx.query(asked, params)),
  }
}

/** A database whose transactions do `between` before their statement number `at` (from 0), once. */
export function stoppedBefore(db: Database, at: number, between: () => Promise<void>): Database {
  let done = false
  return steppedBy(db, async (number) => {
    if (number !== at || done) return
    done = true
    await between()
  })
}

/** A database whose transactions do `before` before each of their statements, with its number (from 0). */
export function steppedBy(db: Database, before: (number: number) => Promise<void>): Database {
  return {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, (tx) => {
        let sent = 0
        return work({
          ...tx,
          async query(statement, params) {
            await before(sent++)
            return tx.query(statement, params)
          },
        })
      }),
  }
}
