/**
 * What is asked of Belfry in a cell: schedules of every kind, some of them at most once, a schedule of drawn
 * workflows, and runs that are asked for all the while: now, later, after others, at most once. All of it has
 * to be in place, or accepted, come what may; what was accepted is kept in here, for the checker.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '@belfry/sdk'
import { type DrawnWorkflow, drawWorkflow } from '../../support/drawn-workflow.ts'
import type { ExpectedSchedule } from '../support/checker.ts'
import type { World } from './world.ts'

export interface AskedRun {
  readonly runId: string
  readonly atMostOnce: boolean
  /** Epoch ms: not before, and not before it was accepted. */
  readonly notBeforeMs: number
  readonly parentIds: readonly string[]
}

export interface WorkflowSchedule extends ExpectedSchedule {
  readonly drawn: DrawnWorkflow
}

export interface Load {
  readonly expected: readonly ExpectedSchedule[]
  readonly atMostOnce: ReadonlySet<string>
  readonly workflows: readonly WorkflowSchedule[]
  readonly asked: readonly AskedRun[]
  /** Ids of the jobs that runs are asked of: nothing else may have made a run of them. */
  readonly askedJobIds: readonly string[]
  /** What was refused, or never accepted. */
  readonly refused: readonly string[]
  /** Asks until the window is over; resolves when all that was asked was accepted, or given up. */
  readonly ask: () => Promise<void>
}

type Timing = Partial<Parameters<Client['schedules']['create']>[0]>

const rules = { overlap: 'allow', catchUp: { policy: 'all', windowMs: 3_600_000, maxRuns: 1_000 } } as const
const retry = { maxAttempts: 20, baseMs: 200, capMs: 1_000 } as const
const atATime = 12
const ats = 70
const workflowTasks = 8
const askEveryMs = 250
const askAgainMs = 150
const askForMs = 60_000

/** Makes jobs, workflows and schedules; nothing is due before `world.firstMs()`. */
export async function planLoad(world: World): Promise<Load> {
  const client = world.arena.client('api')
  const base = world.ground.targetUrl ?? world.arena.ledger.url
  const job = async (name: string, path: string, more: object = {}): Promise<string> => {
    const handler = { kind: 'http', url: `${base}${path}` } as const
    return (await client.jobs.create({ name, handler, retry, attemptTimeoutMs: 10_000, ...more })).id
  }
  const most = { delivery: 'at_most_once', retry: { maxAttempts: 1 } }
  await Promise.all([
    job('least', '/work'),
    job('most', '/work', most),
    job('works', '/task'),
    job('breaks', '/busy', { retry: { maxAttempts: 1 } }),
  ])
  const askedJobIds = await Promise.all([job('asked', '/asked'), job('asked-most', '/asked', most)])
  const { expected, atMostOnce } = await planSchedules(world, client)
  const workflows = await planWorkflows(world, client)
  const asked: AskedRun[] = []
  const refused: string[] = []
  return {
    expected,
    atMostOnce,
    workflows,
    asked,
    askedJobIds,
    refused,
    ask: () => askAllTheWhile(world, asked, refused),
  }
}

const iso = (ms: number): string => new Date(ms).toISOString()

function series(world: World, stepMs: number): number[] {
  return Array.from({ length: Math.ceil(world.windowMs / stepMs) }, (_, k) => world.firstMs() + k * stepMs)
}

function bounds(world: World): Timing {
  return { startAt: iso(world.firstMs()), endAt: iso(world.firstMs() + world.windowMs) }
}

async function planSchedules(world: World, client: Client) {
  const expected: ExpectedSchedule[] = []
  const atMostOnce = new Set<string>()
  let count = 0
  const add = async (timing: Timing, job: 'least' | 'most', times: readonly number[]): Promise<void> => {
    const made = await client.schedules.create({ name: `s-${count++}`, job, ...rules, ...timing })
    expected.push({ scheduleId: made.id, times })
    if (job === 'most') atMostOnce.add(made.id)
  }
  const { draw } = world
  const work = Array.from({ length: ats }, (_, index) => {
    const at = world.firstMs() + draw(world.windowMs)
    return () => add({ at: iso(at) }, index % 6 === 0 ? 'most' : 'least', [at])
  })
  for (const job of ['least', 'least', 'least', 'most'] as const)
    work.push(() => add({ every: '1s', ...bounds(world) }, job, series(world, 1_000)))
  for (let index = 0; index < 4; index++)
    work.push(() => add({ cron: '*/2 * * * * *', ...bounds(world) }, 'least', series(world, 2_000)))
  for (let from = 0; from < work.length; from += atATime)
    await Promise.all(work.slice(from, from + atATime).map((each) => each()))
  return { expected, atMostOnce }
}

async function planWorkflows(world: World, client: Client): Promise<WorkflowSchedule[]> {
  const jobs = { works: 'works', breaks: 'breaks' }
  const planned: WorkflowSchedule[] = []
  for (const name of ['drawn-0', 'drawn-1']) {
    const drawn = drawWorkflow({ draw: world.draw, tasks: workflowTasks, jobs })
    await client.workflows.apply({ name, ...drawn.definition })
    const made = await client.schedules.create({
      name,
      workflow: name,
      every: '2s',
      ...bounds(world),
      ...rules,
    })
    planned.push({ scheduleId: made.id, times: series(world, 2_000), drawn })
  }
  return planned
}

/** Each with a key of its own, under which it is asked for again until an answer came. */
async function askAllTheWhile(world: World, asked: AskedRun[], refused: string[]): Promise<void> {
  const endMs = world.firstMs() + world.windowMs
  const under: Promise<void>[] = []
  for (let number = 0; world.firstMs() + number * askEveryMs < endMs; number++) {
    await world.until((number * askEveryMs) / 1_000)
    under.push(
      askOne(world, number, asked).then(
        (run) => void asked.push(run),
        (error: unknown) => void refused.push(error instanceof Error ? error.message : String(error)),
      ),
    )
  }
  await Promise.all(under)
}

async function askOne(world: World, number: number, before: readonly AskedRun[]): Promise<AskedRun> {
  const { draw } = world
  const atMostOnce = number % 7 === 3
  const laterMs = number % 3 === 1 ? Date.now() + 200 + draw(2_000) : undefined
  const parents = number % 4 === 2 ? before.slice(-1 - draw(3)) : []
  // one that is at most once may end in doubt, and who depends on it would rightly not start
  const parentIds = parents.filter((parent) => !parent.atMostOnce).map(({ runId }) => runId)
  const body = {
    job: atMostOnce ? 'asked-most' : 'asked',
    ...(laterMs === undefined ? {} : { runAt: iso(laterMs) }),
    ...(parentIds.length === 0 ? {} : { dependsOn: parentIds, rule: 'all_succeeded' }),
  }
  const untilMs = Date.now() + askForMs
  let last = 'nobody to ask'
  while (Date.now() < untilMs) {
    const node = world.arena.nodes.get('api')
    const answer =
      node && (await world.arena.call(node, 'POST', '/v1/runs', body, `ask-${number}`).catch(() => undefined))
    if (answer !== undefined && answer.status < 300) {
      const runId = String(answer.body['id'])
      return { runId, atMostOnce, notBeforeMs: laterMs ?? 0, parentIds }
    }
    if (answer !== undefined) last = `${answer.status} ${String(answer.body['code'])}`
    if (answer !== undefined && answer.body['retryable'] !== true)
      throw new Error(`run ${number} was refused: ${last} ${String(answer.body['detail'])}`)
    await wait(askAgainMs)
  }
  throw new Error(`run ${number} was never accepted: ${last}`)
}
