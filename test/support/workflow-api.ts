// Workflow runs over the real API, moved on by the real resolver; what its tasks run is claimed from the real
// queue and ends as the test says.
import type { JsonValue, TerminalRunState, WorkflowDefinition } from '@belfry/contract'
import { shapesOf } from '../../packages/server/src/domain/workflow/definition.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createResolver, type Resolver } from '../../packages/server/src/engine/resolver.ts'
import type { WorkflowResolving } from '../../packages/server/src/ports/workflow-runs.ts'
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { type Answer, startTestApi, type TestApi } from './api.ts'
import { realClock, realRandom } from './real-clock.ts'
import { newId, recordEvents, recordHints, succeededEnd, testIds } from './running.ts'

export interface HeldTask {
  readonly runId: string
  readonly leaseEpoch: number
  readonly task: string
  readonly item: number | null
  readonly input: JsonValue
  readonly cancelRequested: boolean
}

/** How a run ends: its output, or `fail` and the like. */
export type TaskAnswer = { readonly output: JsonValue } | Exclude<TerminalRunState, 'succeeded'>

export interface WorkflowApi {
  readonly t: TestApi
  readonly resolver: Resolver
  /** Another one, as of another process. */
  readonly newResolver: (resolving?: WorkflowResolving) => Resolver
  /** Stores it under a new name; answers that and its id. */
  readonly store: (
    definition: object,
    name?: string,
  ) => Promise<{ readonly name: string; readonly id: string }>
  /** Asks for a run; answers its id. */
  readonly ask: (workflow: string, more?: object) => Promise<string>
  readonly act: (id: string, verb: string, body?: object, query?: string) => Promise<Answer>
  /** Claims what is ready; answers all that is held of this workflow run. */
  readonly claim: (id: string) => Promise<HeldTask[]>
  readonly end: (run: HeldTask, answer: TaskAnswer) => Promise<void>
  /** Resolver and ends in turn, until nothing is held; answers the tasks in the order of their starts. */
  readonly play: (
    id: string,
    answer?: (task: string, run: HeldTask) => TaskAnswer | undefined,
  ) => Promise<string[]>
  /** State of the workflow run and of its tasks. */
  readonly standing: (id: string) => Promise<{ state: string; tasks: Record<string, string> }>
  readonly close: () => Promise<void>
}

let named = 0

export async function openWorkflowApi(given?: TestApi): Promise<WorkflowApi> {
  const t = given ?? (await startTestApi())
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(t.db) })
  const resolving = createPostgresWorkflowResolving(t.db)
  const hints = recordHints()
  const newResolver = (own: WorkflowResolving = resolving): Resolver =>
    createResolver({
      clock: realClock,
      random: realRandom,
      ids: testIds,
      tags,
      resolving: own,
      bus: createPostgresEventBus({ resolving: own, hints }),
      events: recordEvents(),
      hints,
    })
  const resolver = newResolver()
  const store = createPostgresRunStore({ db: t.db, heartbeats: t.db })
  const session = newId()
  await store.openSession(
    { id: session, host: 'test', version: '0', queues: ['default'], slots: 500 },
    600_000,
  )
  const rig: WorkflowApi = {
    t,
    resolver,
    newResolver,
    async store(definition, name = `flow-${named++}`) {
      const { status, body } = await t.call('POST', '/v1/workflows', { body: { name, ...definition } })
      if (status !== 200) throw new Error(`Not stored: ${body.detail}`)
      return { name, id: body.id }
    },
    async ask(workflow, more = {}) {
      const { status, body } = await t.call('POST', '/v1/workflow-runs', { body: { workflow, ...more } })
      if (status !== 201) throw new Error(`Not asked for: ${body.detail}`)
      return body.id
    },
    act: (id, verb, body = {}, query = '') =>
      t.call('POST', `/v1/workflow-runs/${id}/${verb}${query}`, { body }),
    async claim(id) {
      await claimAll(t, session)
      return heldTasks(t, session, id)
    },
    play: (id, answer) => play(rig, id, answer),
    standing: (id) => standingOf(t, id),
    async end({ runId, leaseEpoch }, answer) {
      const state = typeof answer === 'string' ? answer : 'succeeded'
      const outcome = state === 'succeeded' || state === 'canceled' ? state : 'failed'
      const result = typeof answer === 'string' ? undefined : answer.output
      const end = { ...succeededEnd({ runId, leaseEpoch }), outcome, runState: state, result } as const
      await store.complete(session, [end])
    },
    async close() {
      await tags.close()
      await t.close()
    },
  }
  return rig
}

async function claimAll({ db }: TestApi, sessionId: string): Promise<void> {
  const queue = createPostgresRunQueue(db)
  const shares = [{ queue: 'default', minTag: -Infinity, limit: 500 }]
  for (;;) {
    const { runs } = await queue.claim({ sessionId, shares, routes: ['http'], deadlineMarginMs: 60_000 })
    if (runs.length === 0) return
  }
}

async function play(
  { resolver, claim, end }: WorkflowApi,
  id: string,
  answer: Parameters<WorkflowApi['play']>[1] = () => undefined,
): Promise<string[]> {
  const started: string[] = []
  for (;;) {
    await resolver.runOnce()
    const held = await claim(id)
    if (held.length === 0) return started
    for (const run of held) {
      started.push(run.item === null ? run.task : `${run.task}[${run.item}]`)
      await end(run, answer(run.task, run) ?? { output: null })
    }
  }
}

async function standingOf(t: TestApi, id: string): ReturnType<WorkflowApi['standing']> {
  const run = await t.call('GET', `/v1/workflow-runs/${id}`)
  const { tasks } = (await t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
  const states = tasks as unknown as readonly { readonly id: string; readonly state: string }[]
  return { state: run.body.state, tasks: Object.fromEntries(states.map((each) => [each.id, each.state])) }
}

async function heldTasks(t: TestApi, session: string, id: string): Promise<HeldTask[]> {
  const rows = await t.database.sql<{
    run_id: string
    lease_epoch: number
    task: number
    item: number | null
    input: JsonValue
    canceled: boolean
    definition: WorkflowDefinition
  }>(
    `SELECT q.run_id, q.lease_epoch::int, r.task, r.item, r.input, v.definition,
            q.cancel_requested_at IS NOT NULL AS canceled
     FROM belfry.ready q JOIN belfry.run r ON r.id = q.run_id
     JOIN belfry.workflow_run w ON w.id = r.workflow_run_id
     JOIN belfry.workflow_version v ON v.workflow_id = w.workflow_id AND v.version = w.version
     WHERE q.session_id = $1 AND r.workflow_run_id = $2 ORDER BY r.task, r.item, r.id`,
    [session, id],
  )
  return rows.map((row) => ({
    runId: row.run_id,
    leaseEpoch: row.lease_epoch,
    task: shapesOf(row.definition)[row.task]?.id ?? '',
    item: row.item,
    input: row.input,
    cancelRequested: row.canceled,
  }))
}
