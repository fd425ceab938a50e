// What workflows of no-op functions cost, in this process, which is client, resolver and worker at once. Each
// measurement has a database of its own.
import { type Belfry, createBelfry, defineJob } from 'belfry'
import type pg from 'pg'
import { copyRow, idOfCopy } from './copy-rows.ts'
import { round, type Spread, spreadOf } from './figures.ts'
import type { Servers } from './servers.ts'

export interface WorkflowSizes {
  readonly seconds: number
  readonly slots: number
  readonly hops: number
  readonly width: number
}

const jobName = 'noop'
/** Calls of the API under way at a time. */
const callers = 50
/** More than is worked off in a second. */
const backlogPerSecond = 20_000
const savedTasks = 5_000
/** The first one has to load and compile what the others have at hand. */
const fans = 5
const quietMs = 30_000

interface Stage {
  readonly belfry: Belfry
  /** Begins to run workflows and functions; `heard` is called in each function. */
  readonly work: (heard: (task: string | undefined) => void) => Promise<Belfry>
  readonly databaseUrl: string
  readonly close: () => Promise<void>
}

async function openStage(servers: Servers, slots: number): Promise<Stage> {
  const { place, drop } = await servers.place('belfry')
  let tell: (task: string | undefined) => void = () => undefined
  const noop = defineJob({ name: jobName, run: (input) => tell((input as { task?: string } | null)?.task) })
  const options = { databaseUrl: place.runtimeUrl, jobs: [noop], migrate: false } as const
  const asking = createBelfry({ ...options, work: false })
  await asking.start()
  let working: Belfry | undefined
  return {
    belfry: asking,
    databaseUrl: place.databaseUrl,
    async work(heard) {
      tell = heard
      working = createBelfry({ ...options, slots, drainMs: 1_000 })
      await working.start()
      return working
    },
    async close() {
      await working?.stop()
      await asking.stop()
      await drop()
    },
  }
}

type File = Parameters<Belfry['client']['workflows']['apply']>[0]
type Tasks = File['tasks']

async function store({ belfry }: Stage, name: string, tasks: Tasks): Promise<number> {
  const startedMs = performance.now()
  await belfry.client.workflows.apply({ name, tasks })
  return Math.round(performance.now() - startedMs)
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, each) => each)

export interface ChainFigures {
  /** From one function to the next, ms. */
  readonly hopMs: Spread
  readonly storedMs: number
}

/** One workflow run of a chain, on its own. */
export async function measureChain(servers: Servers, { hops, slots }: WorkflowSizes): Promise<ChainFigures> {
  const stage = await openStage(servers, slots)
  try {
    const tasks = numbers(hops + 1).map((at) => {
      return { id: `n${at}`, job: jobName, ...(at === 0 ? {} : { needs: [`n${at - 1}`] }) }
    })
    const storedMs = await store(stage, 'chain', tasks)
    const calledAt: number[] = []
    const over = Promise.withResolvers<void>()
    const limit = setTimeout(() => over.reject(new Error(`Only ${calledAt.length} tasks ran.`)), hops * 200)
    const { client } = await stage.work(() => {
      calledAt.push(performance.now())
      if (calledAt.length === hops + 1) over.resolve()
    })
    await client.workflowRuns.create({ workflow: 'chain' })
    await over.promise
    clearTimeout(limit)
    return { hopMs: spreadOf(calledAt.slice(1).map((at, index) => at - (calledAt[index] ?? at))), storedMs }
  } finally {
    await stage.close()
  }
}

export interface SinglesFigures {
  /** Ends of workflow runs a second, of a backlog. */
  readonly runsPerSecond: number
  readonly runs: number
  /** Of the process, for each. */
  readonly cpuMicrosPerRun: number
  /** Calls of the API, one workflow run each, that nobody runs yet. */
  readonly startsPerSecond: number
  /** The same calls while the process also runs what they start: ends a second. */
  readonly closedLoopPerSecond: number
}

/** Workflow runs of one task. */
export async function measureSingles(
  servers: Servers,
  { seconds, slots }: WorkflowSizes,
): Promise<SinglesFigures> {
  const stage = await openStage(servers, slots)
  try {
    await store(stage, 'single', [{ id: 'only', job: jobName }])
    const startsPerSecond = await startFor(stage.belfry, Math.min(5, seconds))
    await servers.on(stage.databaseUrl, (sql) => preload(sql, seconds * backlogPerSecond))
    const first = Promise.withResolvers<void>()
    const working = await stage.work(() => first.resolve())
    await first.promise
    const rate = await endsDuring(servers, stage, seconds)
    await servers.on(stage.databaseUrl, (sql) => sql.query('TRUNCATE belfry.workflow_event'))
    const callers = startFor(working, Math.min(5, seconds))
    const { runsPerSecond: closedLoopPerSecond } = await endsDuring(servers, stage, Math.min(5, seconds))
    await callers
    return { ...rate, startsPerSecond, closedLoopPerSecond }
  } finally {
    await stage.close()
  }
}

/** A backlog: copies of one workflow run that was asked for. */
async function preload(sql: pg.Client, count: number): Promise<void> {
  await sql.query(keepModels)
  const id = idOfCopy()
  await copyRow(sql, 'workflow_run', 'model_workflow_run', { id }, count)
  await copyRow(sql, 'workflow_progress', 'model_workflow_progress', { workflow_run_id: id }, count)
  const event = { workflow_run_id: id, at: 'clock_timestamp()' }
  await copyRow(sql, 'workflow_event', 'model_workflow_event', event, count)
  await sql.query('VACUUM ANALYZE')
  await sql.query('CHECKPOINT')
}

const keepModels = `
CREATE TABLE model_workflow_progress AS SELECT * FROM belfry.workflow_progress LIMIT 1;
CREATE TABLE model_workflow_run AS
  SELECT run.* FROM belfry.workflow_run run JOIN model_workflow_progress p ON run.id = p.workflow_run_id;
CREATE TABLE model_workflow_event AS
  SELECT event.* FROM belfry.workflow_event event JOIN model_workflow_progress p USING (workflow_run_id)`

/** Starts as many as it can; answers how many a second. */
async function startFor({ client }: Belfry, forSeconds: number): Promise<number> {
  const startedMs = performance.now()
  let count = 0
  const call = async (): Promise<void> => {
    while (performance.now() - startedMs < forSeconds * 1_000) {
      await client.workflowRuns.create({ workflow: 'single' })
      count++
    }
  }
  await Promise.all(Array.from({ length: callers }, call))
  return Math.round((count / (performance.now() - startedMs)) * 1_000)
}

/** Workflow runs that end from now on. */
async function endsDuring(servers: Servers, { databaseUrl }: Stage, forSeconds: number) {
  return servers.on(databaseUrl, async (sql) => {
    const ended = async (): Promise<number> => {
      const { rows } = await sql.query<{ count: number }>(
        'SELECT count(*)::int AS count FROM belfry.workflow_run WHERE ended_at IS NOT NULL',
      )
      return rows[0]?.count ?? 0
    }
    const before = await ended()
    const startedMs = performance.now()
    const cpu = process.cpuUsage()
    await new Promise((resolve) => setTimeout(resolve, forSeconds * 1_000))
    const runs = (await ended()) - before
    const { user, system } = process.cpuUsage(cpu)
    const runsPerSecond = Math.round((runs / (performance.now() - startedMs)) * 1_000)
    return { runs, runsPerSecond, cpuMicrosPerRun: round((user + system) / runs) }
  })
}

export interface FanOutFigures {
  /** From the call of the first task to that of the join, a second. */
  readonly runsPerSecond: number
  readonly storedMs: number
}

/** A first task, so many that need it, and one that needs them all. */
export async function measureFanOut(
  servers: Servers,
  { width, slots, as }: WorkflowSizes & { readonly as: 'items' | 'tasks' },
): Promise<FanOutFigures> {
  const stage = await openStage(servers, slots)
  try {
    const named = { job: jobName, needs: ['first'] }
    const wide: Tasks =
      as === 'items'
        ? [{ ...named, id: 'each', forEach: { from: { items: numbers(width) }, maxItems: width } }]
        : numbers(width).map((at) => ({ ...named, id: `n${at}` }))
    const tell = (task: string) => ({ job: jobName, input: { task } })
    const storedMs = await store(stage, 'fan', [
      { id: 'first', ...tell('first') },
      ...wide,
      { id: 'join', ...tell('join'), needs: wide.map(({ id }) => id) },
    ])
    let [firstMs, calls] = [0, 0]
    let over = Promise.withResolvers<number>()
    const { client } = await stage.work((task) => {
      calls++
      if (task === 'first') firstMs = performance.now()
      if (task === 'join') over.resolve(performance.now() - firstMs)
    })
    const tookMs: number[] = []
    for (let round = 0; round < fans; round++) {
      over = Promise.withResolvers<number>()
      const limit = setTimeout(() => over.reject(new Error(`Only ${calls} tasks ran.`)), quietMs)
      await client.workflowRuns.create({ workflow: 'fan' })
      tookMs.push(await over.promise)
      clearTimeout(limit)
    }
    const { p50 } = spreadOf(tookMs)
    return { runsPerSecond: Math.round((width / p50) * 1_000), storedMs }
  } finally {
    await stage.close()
  }
}

/** How long it takes to store so many tasks, each with its own handler, and to change all of them, ms. */
export async function measureSave(servers: Servers, { slots }: WorkflowSizes) {
  const stage = await openStage(servers, slots)
  const tasksWith = (timeoutMs: number): Tasks =>
    numbers(savedTasks).map((at) => ({
      id: `n${at}`,
      handler: { kind: 'http', url: `https://target.example/${at}` },
      attemptTimeoutMs: timeoutMs,
      needs: [at - 1, at - 2, at - 3].filter((each) => each >= 0).map((each) => `n${each}`),
    }))
  try {
    const newMs = await store(stage, 'large', tasksWith(10_000))
    return { tasks: savedTasks, newMs, changedMs: await store(stage, 'large', tasksWith(20_000)) }
  } finally {
    await stage.close()
  }
}
