/**
 * The proof of the foundation: three real Belfry processes on one real Postgres, 2,000 planned times over 40
 * seconds, and meanwhile every process is killed -9 and started again in turn, one is stopped past its lease
 * and woken, and Postgres is killed -9 and comes back. Nothing may be lost, nothing may fire that nobody
 * planned, nothing may run twice without a reason on record. And limits: workers and gatekeepers are killed
 * in turn, and what a limit allows is neither exceeded nor, later, left unused.
 */
import type { Client } from '@belfry/sdk'
import { expect, it } from 'vitest'
import { arenaHarness } from './support/arena.ts'
import type { Arena } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import type { RecordedCall } from './support/ledger.ts'
import { parseLine } from './support/node-process.ts'
import { actAt, killAndRestart, plan, settleMs, windowMs } from './support/planned-times.ts'
import { untilQuiet } from './support/quiet.ts'
import { eventually } from '../support/running.ts'

const harness = arenaHarness()

async function wreak(arena: Arena, firstMs: number): Promise<void> {
  await actAt(firstMs, [
    [5, () => killAndRestart(arena, 'a')],
    [11, () => killAndRestart(arena, 'b')],
    [17, () => killAndRestart(arena, 'c')],
    [23, () => void process.kill(arena.postgres.pid, 'SIGKILL')],
    [29, () => arena.nodes.get('a')?.signal('SIGSTOP')],
    [36, () => arena.nodes.get('a')?.signal('SIGCONT')],
  ])
}

it('loses nothing while every process and Postgres are killed in turn', { timeout: 480_000 }, async () => {
  const arena = await harness.open()
  for (const name of ['a', 'b', 'c']) await arena.start(name)
  const { firstMs, expected, atMostOnce } = await plan(arena.client(), `${arena.ledger.url}/work`)
  expect(expected.flatMap((each) => each.times)).toHaveLength(2_000)

  await wreak(arena, firstMs)
  const sql = await untilQuiet(arena, firstMs + windowMs + settleMs)
  harness.defer(() => sql.end())

  const faults = await findFaults({
    sql,
    expected,
    calls: arena.ledger.calls,
    atMostOnceScheduleIds: atMostOnce,
  })
  expect(
    faults.slice(0, 20),
    [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n'),
  ).toEqual([])
  const lost = await sql.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  expect(lost.rows[0]?.n, 'the chaos must have hit something').toBeGreaterThan(0)
})

/** The most of these calls that were under way at once at the target. */
function mostAtOnce(calls: readonly RecordedCall[]): number {
  const steps = calls.flatMap(({ began, ended = Infinity }) => [
    { turn: began, by: 1 },
    { turn: ended, by: -1 },
  ])
  let now = 0
  let most = 0
  for (const { by } of steps.toSorted((a, b) => a.turn - b.turn)) {
    now += by
    most = Math.max(most, now)
  }
  return most
}

const jobLimit = 3
const customers = 6
/** So many that no key is done while the runs of a dead worker wait for its lease. */
const perCustomer = 80
const few = 120

/** Runs of a job with a limit, and of one with a limit for each key. */
async function enqueueLimited(client: Client, target: string): Promise<Map<string, string>> {
  const retry = { maxAttempts: 10, baseMs: 200, capMs: 1_000 } as const
  const handler = { kind: 'http', url: target } as const
  await client.jobs.create({ name: 'few', handler, retry, concurrency: { limit: jobLimit } })
  await client.jobs.create({ name: 'keyed', handler, retry, concurrency: { key: 'customer', keyLimit: 1 } })
  const keyed = Array.from({ length: customers * perCustomer }, (_, index) => {
    return { job: 'keyed', input: { customer: `customer ${index % customers}` } }
  })
  const items = [...Array.from({ length: few }, () => ({ job: 'few', input: null })), ...keyed]
  const { results } = await client.runs.enqueueBatch({ items, atomic: true })
  return new Map(
    results.map((result, index) => {
      if (result.run === null) throw new Error(result.error?.message ?? 'no run was made')
      const item = items[index]
      return [result.run.id, item?.input === null ? 'few' : (item?.input.customer ?? '')]
    }),
  )
}

/** Stops a worker at a moment when it holds runs. */
async function stopBusy(arena: Arena, name: string): Promise<void> {
  const node = arena.nodes.get(name)
  const started = node?.log.map(parseLine).findLast((line) => line?.['event'] === 'session_started')
  const held = 'SELECT FROM belfry.ready WHERE session_id = $1'
  const holds = async () => (await arena.rows(held, [started?.['sessionId']])).length > 0
  const isCaught = async (): Promise<boolean> => {
    if (!(await holds())) return false
    node?.signal('SIGSTOP')
    if (await holds()) return true
    node?.signal('SIGCONT')
    return false
  }
  await eventually(isCaught, `${name} stopped while it held runs`, 30_000)
}

it('never lets more through than a limit allows while workers and gatekeepers are killed', async () => {
  const arena = await harness.open()
  const roles = { api: 'api,scheduler', worker: 'worker' }
  const begin = async (name: string): Promise<void> => {
    await arena.start(name, { BELFRY_ROLES: name === 'keeper' ? roles.api : roles.worker })
  }
  for (const name of ['keeper', 'a', 'b']) await begin(name)
  const laneOf = await enqueueLimited(arena.client(), `${arena.ledger.url}/work`)
  const { calls } = arena.ledger
  const lanes = (): Map<string, RecordedCall[]> => Map.groupBy(calls, ({ runId }) => laneOf.get(runId) ?? '')

  let before = 0
  for (const [after, name] of [
    [40, 'a'],
    [80, 'keeper'],
    [120, 'b'],
  ] as const) {
    await eventually(() => calls.length >= after, `${after} calls`, 60_000)
    if (name !== 'keeper') await stopBusy(arena, name)
    arena.nodes.get(name)?.signal('SIGKILL')
    await arena.nodes.get(name)?.ended
    // the other worker goes on meanwhile, and a start takes long where much else runs
    before = calls.length
    await begin(name)
  }
  const alive = 'SELECT FROM belfry.ready UNION ALL SELECT FROM belfry.delayed'
  await eventually(async () => (await arena.rows(alive)).length === 0, 'all have ended', 120_000)

  expect(lanes().size).toBe(1 + customers)
  for (const [lane, its] of lanes()) expect(mostAtOnce(its), lane).toBe(lane === 'few' ? jobLimit : 1)
  const later = calls.slice(before)
  const isFew = ({ runId }: RecordedCall): boolean => laneOf.get(runId) === 'few'
  expect(mostAtOnce(later.filter(isFew)), 'the whole limit, after all that').toBe(jobLimit)
  expect(mostAtOnce(later.filter((call) => !isFew(call))), 'every key, after all that').toBe(customers)
  const ends = await arena.rows<{ run_state: string; n: number }>(
    'SELECT run_state, count(*)::int AS n FROM belfry.attempt WHERE run_state IS NOT NULL GROUP BY 1',
  )
  expect(ends).toEqual([{ run_state: 'succeeded', n: laneOf.size }])
  const [lost] = await arena.rows<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  expect(lost?.n, 'the kills must have hit something').toBeGreaterThan(0)
  const slots = 'SELECT FROM belfry.slot WHERE NOT freed UNION ALL SELECT FROM belfry.gate_group'
  await eventually(async () => (await arena.rows(slots)).length === 0, 'no slot taken, nobody held', 30_000)
}, 240_000)
