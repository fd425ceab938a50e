// What there is to do in a simulated world: a tenant with jobs, schedules whose planned times are known
// beforehand, and a client that asks for runs as the API stores them. What was asked for, and acknowledged,
// is kept for the check.
import type { TriggerRule } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import type { RunTemplate } from '../../../packages/server/src/ports/catalog.ts'
import type { Ids } from '../../../packages/server/src/ports/ids.ts'
import type { ZoneSource } from '../../../packages/server/src/ports/zones.ts'
import { createRunIntake } from '../../../packages/server/src/postgres/catalog/run-intake.ts'
import { createPostgresQueueProgress } from '../../../packages/server/src/postgres/queue-progress.ts'
import { createFairTags } from '../../../packages/server/src/engine/fair-tags.ts'
import { hintOfShard } from '../../../packages/server/src/engine/timer-hints.ts'
import { shapesOf } from '../../../packages/server/src/domain/workflow/definition.ts'
import { shardOf } from '../../../packages/server/src/domain/shard.ts'
import type { Hints } from '../../../packages/server/src/ports/hints.ts'
import { drawWorkflow, type DrawnWorkflow } from '../../support/drawn-workflow.ts'
import type { Chance } from './chance.ts'
import { loadMs, type Shape } from './kinds.ts'
import type { SimNode } from './node.ts'
import type { JobKind } from './target.ts'
import type { World } from './world.ts'
import { worldStartMs } from './world-database.ts'

export interface AskedSchedule {
  readonly id: string
  readonly job: JobKind
  /** Epoch ms. */
  readonly times: readonly number[]
}

export interface AskedRun {
  readonly id: string
  readonly job: JobKind
  readonly dueAtMs: number
  /** Runs that it waits for, and by which rule. */
  readonly parents: readonly string[]
}

export interface Asked {
  readonly jobOf: (jobId: string) => JobKind
  readonly schedules: readonly AskedSchedule[]
  /** Grows while the world goes on. */
  readonly runs: readonly AskedRun[]
  readonly workflows: ReadonlyMap<string, DrawnWorkflow>
  /** All has been asked for. */
  readonly isDone: () => boolean
}

export interface LoadOptions {
  readonly world: World
  readonly shape: Shape
  readonly ids: Ids
  readonly zones: ZoneSource
  /** Which nothing happens to. */
  readonly client: SimNode
  readonly hints: Hints
}

const jobKinds: readonly JobKind[] = ['least', 'most', 'shaky', 'serial', 'works', 'breaks']
const rule: TriggerRule = 'all_done'

interface Made {
  readonly tenantId: string
  readonly jobIds: ReadonlyMap<JobKind, string>
  readonly templates: ReadonlyMap<JobKind, RunTemplate>
}

export async function putLoad(options: LoadOptions): Promise<Asked> {
  const { world, shape } = options
  const chance = world.chance.fork('load')
  const made = await putJobs(options)
  const kindOf = new Map([...made.jobIds].map(([kind, id]) => [id, kind]))
  const jobsOfRuns: readonly JobKind[] = shape.limited
    ? ['serial', 'serial', 'least']
    : ['least', 'most', 'shaky']
  const schedules: AskedSchedule[] = []
  for (let index = 0; index < shape.schedules; index++) {
    const job = chance.pick(jobsOfRuns)
    schedules.push(await putSchedule(options, made, chance, job))
  }
  const workflows = new Map<string, DrawnWorkflow>()
  for (let index = 0; index < shape.workflows; index++) {
    const drawn = drawWorkflow({
      draw: chance.below,
      tasks: 4 + chance.below(3),
      jobs: { works: 'works', breaks: 'breaks' },
    })
    workflows.set(await putWorkflow(options, made, drawn), drawn)
  }
  const client = openClient(options, made)
  for (let index = 0; index < shape.runs; index++) {
    const [job, delayMs] = [chance.pick(jobsOfRuns), chance.hit(0.4) ? chance.between(0, 3_000) : 0]
    client.later(chance.between(0, loadMs), () => client.ask(job, delayMs, []))
  }
  for (let index = 0; index < shape.chains; index++) askForChain(client, chance)
  return {
    jobOf: (jobId) => kindOf.get(jobId) ?? 'least',
    schedules,
    workflows,
    runs: client.asked,
    isDone: () => client.isDone(),
  }
}

type Client = ReturnType<typeof openClient>

/** Two parents, a child of both, and a child of that. */
function askForChain(client: Client, chance: Chance): void {
  const [firstMs, spanMs] = [chance.between(0, loadMs / 2), chance.between(0, loadMs / 2)]
  const jobs = (): JobKind => chance.pick(['least', 'shaky', 'most'])
  const [left, right, child, grandchild] = [jobs(), jobs(), jobs(), jobs()]
  client.later(firstMs, async () => {
    const parents = [await client.ask(left, 0, []), await client.ask(right, 500, [])]
    client.later(spanMs, async () => {
      const own = await client.ask(child, 0, parents)
      await client.ask(grandchild, 0, [own])
    })
  })
}

function openClient({ world, client: node, ids, hints }: LoadOptions, { tenantId, templates }: Made) {
  const { agenda } = world
  const tags = createFairTags({ clock: node.clock, progress: createPostgresQueueProgress(node.db) })
  const asked: AskedRun[] = []
  let open = 0
  let fault: Error | undefined

  async function ask(job: JobKind, delayMs: number, parents: readonly string[]): Promise<string> {
    const template = templates.get(job)
    if (template === undefined) throw new Error(`There is no job ${job}.`)
    await tags.ready(['default'])
    const nowMs = agenda.nowMs()
    const id = ids.uuidv7(nowMs)
    const tag = tags.next({ queue: 'default', tenantId, weight: 1, priority: 0 })
    const start =
      parents.length > 0
        ? ({ kind: 'waiting', runIds: parents, rule } as const)
        : delayMs > 0
          ? ({ kind: 'delayed' } as const)
          : ({ kind: 'ready', tag } as const)
    const dueAtMs = Math.ceil(nowMs + delayMs)
    const limits = { startByMs: null, runDeadlineMs: null }
    const origin = { scheduleId: null, scheduledForMs: null, source: 'manual', input: undefined } as const
    await node.db.transaction({ role: 'belfry_app', tenantId }, (tx) =>
      createRunIntake(tx, tenantId).insert([
        { ...origin, ...limits, id, template, queue: 'default', priority: 0, dueAtMs, start },
      ]),
    )
    asked.push({ id, job, dueAtMs, parents })
    if (start.kind === 'ready') hints.publish({ topic: 'ready', key: 'default' })
    else if (start.kind === 'waiting') hints.publish({ topic: 'dependencies', key: 'any' })
    else hints.publish(hintOfShard(shardOf(id)))
    return id
  }

  return {
    asked,
    ask,
    later(delayMs: number, act: () => Promise<unknown>): void {
      open++
      node.in(delayMs, () => {
        act().then(
          () => open--,
          (cause: unknown) => (fault = new Error('A request of the client failed.', { cause })),
        )
      })
    },
    isDone(): boolean {
      if (fault !== undefined) throw fault
      return open === 0
    },
  }
}

async function putJobs({ world, ids }: LoadOptions): Promise<Made> {
  const tenantId = ids.uuidv7(worldStartMs)
  const jobs = jobKinds.map((kind) => {
    const retry = { maxAttempts: 20, baseMs: 300, capMs: 1_000 }
    const definition = jobDefinitionSchema.parse({
      handler: { kind: 'http', url: 'http://target.invalid/' },
      delivery: kind === 'most' ? 'at_most_once' : 'at_least_once',
      attemptTimeoutMs: 12_000,
      retry,
      ...(kind === 'serial' ? { concurrency: { limit: 1 } } : {}),
    })
    return { kind, id: ids.uuidv7(worldStartMs), definition }
  })
  const rows = JSON.stringify(jobs.map(({ kind, id, definition }) => ({ kind, id, definition })))
  await world.database.sql(
    `WITH tenant AS (INSERT INTO belfry.tenant (id, name) VALUES ($1, $3) RETURNING id), job AS (
       INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
       SELECT id, $1, kind, 'http', 'default', 0, 12000, definition
       FROM jsonb_to_recordset($2::jsonb) AS j (kind text, id uuid, definition jsonb)
       RETURNING id, definition)
     INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
     SELECT id, 1, $1, definition FROM job`,
    [tenantId, rows, `tenant-${tenantId}`],
  )
  const templates = jobs.map(({ kind, id, definition }) => {
    const limited = definition.concurrency !== null
    const job = { jobId: id, jobName: kind, jobVersion: 1, definition, limited, tenantWeight: 1 }
    return [kind, job] as const
  })
  const jobIds = new Map(jobs.map(({ kind, id }) => [kind, id]))
  return { tenantId, jobIds, templates: new Map(templates) }
}

async function putSchedule(
  { world, ids, zones }: LoadOptions,
  { tenantId, jobIds }: Made,
  chance: Chance,
  job: JobKind,
): Promise<AskedSchedule> {
  const id = ids.uuidv7(worldStartMs)
  const once = chance.hit(0.3)
  const everyMs = chance.pick([1_000, 1_000, 2_000])
  const firstMs = Math.floor(worldStartMs + chance.between(300, once ? loadMs : 1_500))
  const endMs = worldStartMs + loadMs
  const series = Array.from(
    { length: Math.ceil((endMs - firstMs) / everyMs) },
    (_, n) => firstMs + n * everyMs,
  )
  const spec = once
    ? { at: new Date(firstMs).toISOString() }
    : { every: `${everyMs / 1_000}s`, everyMs, anchorMs: firstMs }
  await world.database.sql(
    `WITH made AS (
       INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version, jitter_ms,
         catch_up, overlap, end_at)
       VALUES ($1, $2, $3, $4, $5, 'UTC', $6, 0, $7, 'allow', $9))
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     VALUES ($1, $2, $8, $8, 1, belfry.shard_of($1))`,
    [
      id,
      tenantId,
      `s-${id}`,
      jobIds.get(job),
      spec,
      zones.dataVersion,
      { policy: 'all', windowMs: 86_400_000, maxRuns: 100 },
      new Date(firstMs),
      once ? null : new Date(endMs),
    ],
  )
  return { id, job, times: once ? [firstMs] : series }
}

async function putWorkflow(
  { world, ids }: LoadOptions,
  { tenantId, jobIds }: Made,
  { definition }: DrawnWorkflow,
): Promise<string> {
  const [workflowId, runId] = [ids.uuidv7(worldStartMs), ids.uuidv7(worldStartMs)]
  const tasks = shapesOf(definition)
  const jobs = [...definition.tasks, ...definition.onFailure, ...definition.finally].map(({ job }) =>
    jobIds.get(job as JobKind),
  )
  await world.database.sql(
    `WITH flow AS (
       INSERT INTO belfry.workflow (id, tenant_id, name, task_count)
       VALUES ($1::uuid, $2, 'w-' || $6::uuid, $3)
     ), version AS (
       INSERT INTO belfry.workflow_version
         (workflow_id, version, tenant_id, description, task_count, definition, job_ids, job_versions)
       VALUES ($1, 1, $2, '', $3, $4, $5::uuid[], array_fill(NULL::integer, ARRAY[$3::integer]))
     ), run AS (
       INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source)
       VALUES ($6::uuid, $2, $1, 1, 'manual')
     ), progress AS (
       INSERT INTO belfry.workflow_progress (workflow_run_id, tenant_id, workflow_id, version, states, turn)
       VALUES ($6, $2, $1, 1, $7, 'main')
     )
     INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($6, $2, 'begin')`,
    [workflowId, tenantId, tasks.length, JSON.stringify(definition), jobs, runId, Buffer.alloc(tasks.length)],
  )
  return runId
}
