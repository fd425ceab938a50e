// Schedules of workflows: the API, a scheduler and a resolver on one database, in time that the test moves;
// what tasks run ends as the test says.
import { noonMs } from './backfilling.ts'
import { type ScheduledApi, startScheduledApi } from './scheduled-api.ts'
import { openWorkflowApi, type TaskAnswer, type WorkflowApi } from './workflow-api.ts'

export interface SeenRun {
  readonly id: string
  readonly state: string
  readonly source: string
  readonly scheduledFor: string | null
  readonly dataInterval: { readonly start: string | null; readonly end: string } | null
  readonly triggeredBy: string | null
  readonly input: unknown
  readonly priority: number | null
}

export interface WorkflowScheduleRig {
  readonly t: ScheduledApi
  readonly flows: WorkflowApi
  /** Stores a workflow of one task, or as given, and an hourly schedule of it; answers both. */
  readonly make: (
    schedule?: object,
    definition?: object,
  ) => Promise<{ readonly id: string; readonly workflow: string; readonly workflowId: string }>
  /** Workflow runs of a schedule, oldest first. */
  readonly runs: (scheduleId: string) => Promise<readonly SeenRun[]>
  /** Time of day and state, and data interval, of each. */
  readonly seen: (scheduleId: string) => Promise<readonly string[]>
  /** Lets the resolver work, then ends all that a run has started. */
  readonly finish: (workflowRunId: string, answer?: TaskAnswer) => Promise<void>
  readonly nowMs: () => Promise<number>
  readonly close: () => Promise<void>
}

const oneTask = { tasks: [{ id: 'a', job: 'work' }] }

export async function openWorkflowScheduleRig(startMs = noonMs): Promise<WorkflowScheduleRig> {
  const t = await startScheduledApi(startMs)
  const flows = await openWorkflowApi(t)
  await t.database.sql(`UPDATE belfry.session SET expires_at = 'infinity'`)
  let made = 0
  const rig: WorkflowScheduleRig = {
    t,
    flows,
    async make(schedule = {}, definition = oneTask) {
      const { name: workflow, id: workflowId } = await flows.store(definition)
      const body = {
        name: `ws${made++}`,
        every: '1h',
        startAt: '2026-01-01T00:00:00Z',
        workflow,
        ...schedule,
      }
      const answer = await t.call('POST', '/v1/schedules', { body })
      if (answer.status !== 201) throw new Error(answer.body.detail)
      return { id: answer.body.id, workflow, workflowId }
    },
    async runs(scheduleId) {
      const { body } = await t.call('GET', `/v1/workflow-runs?scheduleId=${scheduleId}&limit=100`)
      const all: SeenRun[] = []
      for (const { id } of body.items.toReversed())
        all.push((await t.call('GET', `/v1/workflow-runs/${id}`)).body as unknown as SeenRun)
      return all
    },
    async seen(scheduleId) {
      return (await rig.runs(scheduleId)).map(({ state, scheduledFor, dataInterval }) => {
        const from = dataInterval?.start?.slice(11, 16) ?? '-'
        const until = dataInterval?.end.slice(11, 16) ?? '-'
        return `${scheduledFor?.slice(11, 16) ?? '-'} ${state} ${from}..${until}`
      })
    },
    async finish(id, answer = { output: null }) {
      await flows.resolver.runOnce()
      for (const held of await flows.claim(id)) await flows.end(held, answer)
      await flows.resolver.runOnce()
    },
    async nowMs() {
      const [row] = await t.database.sql<{ now: Date }>('SELECT belfry.now() AS now')
      return row?.now.getTime() ?? 0
    },
    close: async () => {
      await flows.close().catch(() => undefined)
      await t.node.stop()
    },
  }
  return rig
}
