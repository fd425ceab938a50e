/**
 * Workflows under fire: 200 workflow runs of 50 tasks each, with all rules and some tasks that fail, while
 * workers and resolvers are killed -9 in turn, one is stopped past its lease and woken, and Postgres is
 * killed -9 and comes back. What each has to come to was played beforehand; the records tell whether it
 * did. The seed is printed; SEED=… draws the same workflows.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type DrawnWorkflow, drawWorkflow } from '../support/drawn-workflow.ts'
import { drawer, seedOf } from '../support/random-draws.ts'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import { findWorkflowFaults } from './support/workflow-checker.ts'

const workflows = 8
const runsOfEach = 25
const tasks = 50
const stoppedMs = 6_000
const settleMs = 180_000

const harness = arenaHarness()

/** By the id of each workflow run, what it was begun of. */
async function begin(arena: Arena, seed: number): Promise<Map<string, DrawnWorkflow>> {
  const client = arena.client('keeper')
  const retry = { maxAttempts: 10, baseMs: 100, capMs: 500 } as const
  const handlerOf = (path: string) => ({ kind: 'http', url: `${arena.ledger.url}${path}` }) as const
  await client.jobs.create({ name: 'works', handler: handlerOf('/work'), retry, attemptTimeoutMs: 20_000 })
  // answers 503, always
  await client.jobs.create({ name: 'breaks', handler: handlerOf('/busy'), retry: { maxAttempts: 1 } })
  const draw = drawer(seed)
  const jobs = { works: 'works', breaks: 'breaks' }
  const begun = new Map<string, DrawnWorkflow>()
  for (let each = 0; each < workflows; each++) {
    const drawn = drawWorkflow({ draw, tasks, jobs })
    await client.workflows.apply({ name: `drawn-${each}`, ...drawn.definition })
    for (let run = 0; run < runsOfEach; run++) {
      const { id } = await client.workflowRuns.create({ workflow: `drawn-${each}` })
      begun.set(id, drawn)
    }
  }
  return begun
}

const rolesOf: Readonly<Record<string, string>> = {
  keeper: 'api,scheduler',
  a: 'worker,resolver',
  b: 'worker,resolver',
}

async function start(arena: Arena, name: string): Promise<void> {
  await arena.start(name, { BELFRY_ROLES: rolesOf[name] ?? '', BELFRY_WORKER_SLOTS: '40' })
}

async function killAndRestart(arena: Arena, name: string): Promise<void> {
  arena.nodes.get(name)?.signal('SIGKILL')
  await arena.nodes.get(name)?.ended
  await start(arena, name)
}

/** Each act when the target has seen another share of all calls. */
async function wreak(arena: Arena, calls: number): Promise<void> {
  const acts: (() => Promise<void> | void)[] = [
    () => killAndRestart(arena, 'a'),
    () => killAndRestart(arena, 'keeper'),
    () => killAndRestart(arena, 'b'),
    () => void process.kill(arena.postgres.pid, 'SIGKILL'),
    () => killAndRestart(arena, 'a'),
    async () => {
      arena.nodes.get('b')?.signal('SIGSTOP')
      await wait(stoppedMs)
      arena.nodes.get('b')?.signal('SIGCONT')
    },
    () => killAndRestart(arena, 'keeper'),
  ]
  for (const [index, act] of acts.entries()) {
    const share = Math.floor((calls * (index + 1)) / (acts.length + 1))
    await eventually(() => arena.ledger.calls.length >= share, `${share} calls`, settleMs)
    await act()
  }
}

it('brings every workflow run to its end while workers, resolvers and Postgres are killed', async () => {
  const seed = seedOf('workflows under fire')
  const arena = await harness.open()
  for (const name of ['keeper', 'a', 'b']) await start(arena, name)
  const begun = await begin(arena, seed)
  expect(begun.size).toBe(workflows * runsOfEach)
  const starts = [...begun.values()].reduce((sum, { expected }) => sum + expected.starts.size, 0)

  await wreak(arena, starts)
  const alive = 'SELECT FROM belfry.workflow_progress'
  const none = async (): Promise<boolean> => (await arena.rows(alive).catch(() => [0])).length === 0
  await eventually(none, 'all workflow runs have ended', settleMs).catch(() => undefined)
  const sql = await arena.connect()
  harness.defer(() => sql.end())

  const faults = await findWorkflowFaults({ sql, begun, calls: arena.ledger.calls })
  const words = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
  expect(faults.slice(0, 20), `SEED=${seed}\n${words}`).toEqual([])
  const { rows } = await sql.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  expect(rows[0]?.n, 'the kills must have hit something').toBeGreaterThan(0)
  process.stdout.write(`workflows under fire: ${starts} tasks, ${rows[0]?.n} attempts lost\n`)
}, 600_000)
