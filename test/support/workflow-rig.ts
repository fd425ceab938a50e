// Workflow runs on the real tables, with the real resolver and the real ends of attempts: a workflow is put
// there by SQL, a session claims what is ready, and a test says how each run ends.
import {
  type JsonValue,
  type TaskState,
  type TerminalRunState,
  type WorkflowDefinition,
  workflowDefinitionSchema,
} from '@belfry/contract'
import { shapesOf } from '../../packages/server/src/domain/workflow/definition.ts'
import { unpackItems, unpackStates } from '../../packages/server/src/domain/workflow/stored-states.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createResolver, type Resolver } from '../../packages/server/src/engine/resolver.ts'
import type { EventSink } from '../../packages/server/src/ports/event-sink.ts'
import type { AttemptEnd } from '../../packages/server/src/ports/run-store.ts'
import type { WorkflowResolving } from '../../packages/server/src/ports/workflow-runs.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { realClock, realRandom } from './real-clock.ts'
import {
  createRunningFixture,
  newId,
  recordEvents,
  recordHints,
  type RecordedHints,
  type RunningFixture,
  succeededEnd,
  testIds,
  type TestJob,
} from './running.ts'

export interface ClaimedTask {
  readonly runId: string
  readonly leaseEpoch: number
  readonly task: string
  readonly item: number | null
  readonly input: JsonValue
  readonly cancelRequested: boolean
}

export interface RunStanding {
  /** Null while it is alive. */
  readonly state: string | null
  readonly tasks: Readonly<Record<string, TaskState | readonly TaskState[]>>
  readonly notes: Readonly<Record<string, string>>
}

export interface WorkflowRig {
  readonly fixture: RunningFixture
  readonly resolver: Resolver
  readonly resolving: WorkflowResolving
  readonly hints: RecordedHints
  readonly newResolver: (resolving?: WorkflowResolving, events?: EventSink) => Resolver
  /** Holds what `claim` claims. */
  readonly sessionId: string
  readonly db: Database
  /** Every task runs the job of the rig, or this one, whatever it names. Answers the workflow run. */
  readonly begin: (definition: object, input?: JsonValue, ran?: TestJob) => Promise<string>
  readonly cancel: (workflowRunId: string) => Promise<void>
  /** Claims what is ready; answers all that is held. */
  readonly claim: () => Promise<ClaimedTask[]>
  readonly end: (run: ClaimedTask, state: TerminalRunState, result?: JsonValue) => Promise<void>
  /** All of them succeed, so many a statement, with this output. */
  readonly succeedAll: (
    runs: readonly ClaimedTask[],
    resultOf: (run: ClaimedTask) => JsonValue,
  ) => Promise<void>
  readonly standing: (workflowRunId: string) => Promise<RunStanding>
  readonly close: () => Promise<void>
}

const endsAStatement = 500

export async function openWorkflowRig(): Promise<WorkflowRig> {
  const fixture = await createRunningFixture()
  const { database } = fixture
  const db = database.open({ maxConnections: 4 })
  const resolving = createPostgresWorkflowResolving(db)
  const hints = recordHints()
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(db) })
  const shared = { clock: realClock, random: realRandom, ids: testIds, tags, hints }
  const newResolver = (own: WorkflowResolving = resolving, events: EventSink = recordEvents()): Resolver =>
    createResolver({
      ...shared,
      events,
      resolving: own,
      bus: createPostgresEventBus({ resolving: own, hints }),
    })
  const job = await fixture.addJob()
  const sessionId = await fixture.openSession(600_000)
  const definitions = new Map<string, WorkflowDefinition>()

  return {
    fixture,
    hints,
    resolving,
    newResolver,
    resolver: newResolver(),
    sessionId,
    db,
    async begin(given, input, ran = job) {
      const definition = workflowDefinitionSchema.parse(given)
      const id = await insertRun(fixture, ran, definition, input)
      definitions.set(id, definition)
      return id
    },
    async cancel(id) {
      await database.sql(
        `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($1, $2, 'cancel')`,
        [id, fixture.tenantId],
      )
    },
    async claim() {
      await claimAll(fixture, sessionId)
      return heldTasks(fixture, sessionId, definitions)
    },
    async end({ runId, leaseEpoch }, state, result) {
      const outcome = state === 'succeeded' || state === 'canceled' ? state : 'failed'
      const end: AttemptEnd = { ...succeededEnd({ runId, leaseEpoch }), outcome, runState: state, result }
      await fixture.store.complete(sessionId, [end])
    },
    async succeedAll(runs, resultOf) {
      for (let from = 0; from < runs.length; from += endsAStatement) {
        const ends = runs.slice(from, from + endsAStatement).map((run): AttemptEnd => {
          return { ...succeededEnd({ runId: run.runId, leaseEpoch: run.leaseEpoch }), result: resultOf(run) }
        })
        await fixture.store.complete(sessionId, ends)
      }
    },
    standing: (id) => standingOf(fixture, id, definitions.get(id)),
    async close() {
      await tags.close()
      await fixture.drop()
    },
  }
}

async function claimAll({ queue }: RunningFixture, sessionId: string): Promise<void> {
  const shares = [{ queue: 'default', minTag: -Infinity, limit: 500 }]
  const claim = () => queue.claim({ sessionId, shares, routes: ['http'], deadlineMarginMs: 60_000 })
  while ((await claim()).runs.length > 0);
}

async function insertRun(
  { database, tenantId }: RunningFixture,
  job: TestJob,
  definition: WorkflowDefinition,
  input: JsonValue | undefined,
): Promise<string> {
  const shapes = shapesOf(definition)
  const [id, workflowId] = [newId(), newId()]
  const text = input === undefined ? null : JSON.stringify(input)
  await database.sql(
    `WITH flow AS (
       INSERT INTO belfry.workflow (id, tenant_id, name, task_count)
       VALUES ($1::uuid, $2, 'w-' || $6::uuid, $3)
     ), version AS (
       INSERT INTO belfry.workflow_version
         (workflow_id, version, tenant_id, description, task_count, definition, job_ids, job_versions)
       VALUES ($1, 1, $2, '', $3, $4, array_fill($5::uuid, ARRAY[$3::integer]),
               array_fill(NULL::integer, ARRAY[$3::integer]))
     ), run AS (
       INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source, input)
       VALUES ($6::uuid, $2, $1, 1, 'manual', $7)
     ), progress AS (
       INSERT INTO belfry.workflow_progress (workflow_run_id, tenant_id, workflow_id, version, states, turn)
       VALUES ($6, $2, $1, 1, $8, 'main')
     )
     INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($6, $2, 'begin')`,
    [
      workflowId,
      tenantId,
      shapes.length,
      JSON.stringify(definition),
      job.id,
      id,
      text,
      Buffer.alloc(shapes.length),
    ],
  )
  return id
}

async function heldTasks(
  { database }: RunningFixture,
  sessionId: string,
  definitions: ReadonlyMap<string, WorkflowDefinition>,
): Promise<ClaimedTask[]> {
  const rows = await database.sql<{
    run_id: string
    lease_epoch: number
    workflow_run_id: string
    task: number
    item: number | null
    input: JsonValue
    canceled: boolean
  }>(
    `SELECT q.run_id, q.lease_epoch::int, r.workflow_run_id, r.task, r.item, r.input,
            q.cancel_requested_at IS NOT NULL AS canceled
     FROM belfry.ready q JOIN belfry.run r ON r.id = q.run_id
     WHERE q.session_id = $1 ORDER BY r.task, r.item, r.id`,
    [sessionId],
  )
  const running = [...new Set(rows.map((row) => row.workflow_run_id))]
  const shapes = new Map(
    running.map((id) => {
      const definition = definitions.get(id)
      return [id, definition === undefined ? [] : shapesOf(definition)]
    }),
  )
  return rows.map((row) => {
    const task = shapes.get(row.workflow_run_id)?.[row.task]?.id ?? ''
    const { run_id: runId, lease_epoch: leaseEpoch, item, input, canceled: cancelRequested } = row
    return { runId, leaseEpoch, task, item, input, cancelRequested }
  })
}

async function standingOf(
  { database }: RunningFixture,
  id: string,
  definition: WorkflowDefinition | undefined,
): Promise<RunStanding> {
  const [row] = await database.sql<{
    state: string | null
    states: Buffer
    items: Parameters<typeof unpackItems>[0]
    notes: Record<string, string>
  }>(
    `SELECT r.state, coalesce(p.states, r.states) AS states, coalesce(p.items, r.items) AS items,
            coalesce(p.notes, r.notes) AS notes
     FROM belfry.workflow_run r LEFT JOIN belfry.workflow_progress p ON p.workflow_run_id = r.id
     WHERE r.id = $1`,
    [id],
  )
  if (row === undefined || definition === undefined) throw new Error(`There is no workflow run ${id}.`)
  const states = unpackStates(row.states)
  const { items } = unpackItems(row.items)
  const tasks = shapesOf(definition).map((shape, index) => {
    return [shape.id, items.get(index) ?? states[index] ?? 'not_run'] as const
  })
  return { state: row.state, tasks: Object.fromEntries(tasks), notes: row.notes }
}
