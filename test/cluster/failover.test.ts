// The primary is killed under load and a streaming standby promoted; every process knows both hosts and goes
// on by itself. With a synchronous standby nothing is lost that was answered. With an asynchronous one the
// last commits are lost: what was known before them is kept, is run once more where its end was among them,
// and nothing that is remembered in a process outlives them.
import { expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import type { ExpectedSchedule } from './support/checker.ts'
import { findFaults } from './support/checker.ts'
import { taskJob } from './support/function-worker.ts'
import type { RecordedCall } from './support/ledger.ts'
import { parseLine } from './support/node-process.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import type { Replication, Standby } from './support/standby.ts'
import { startStandby } from './support/standby.ts'
import { enqueueMany, openWorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()
const retry = { maxAttempts: 20, baseMs: 200, capMs: 1_000 }

/** Two servers and an embedded worker on a primary with a standby. */
async function openPair(replication: Replication) {
  const rig = await openWorkerRig(harness, { queues: ['embedded'] })
  const { arena } = rig
  const standby = await startStandby(harness, arena, replication)
  arena.nodes.get('a')?.signal('SIGTERM')
  await arena.nodes.get('a')?.ended
  const both = { DATABASE_URL: standby.bothUrl }
  for (const name of ['a', 'b']) await arena.start(name, both)
  await rig.start({ task: 'after:50', queue: 'embedded', slots: 5, databaseUrl: standby.bothUrl })
  const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
  await arena.client().jobs.create({ name: 'each', handler, retry, attemptTimeoutMs: 20_000 })
  return { rig, arena, standby }
}

/** Answers since when the standby is the primary. */
async function failOver(arena: Arena, standby: Standby): Promise<number> {
  await standby.killPrimary()
  await standby.promote()
  const promotedMs = Date.now()
  for (const node of arena.nodes.values()) {
    const ready = async () => (await fetch(`${node.opsUrl}/readyz`)).status === 200
    await eventually(() => ready().catch(() => false), `${node.name} is ready again`, 60_000)
  }
  return promotedMs
}

async function faultsOf(
  arena: Arena,
  expected: readonly ExpectedSchedule[],
  counts: (call: RecordedCall) => boolean = () => true,
): Promise<readonly string[]> {
  const sql = await untilQuiet(arena, Date.now() + 60_000)
  harness.defer(() => sql.end())
  const calls = arena.ledger.calls.filter(counts)
  const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
  return faults.slice(0, 20)
}

const runsInDatabase = async (arena: Arena): Promise<ReadonlySet<string>> =>
  new Set((await arena.rows<{ id: string }>('SELECT id::text FROM belfry.run')).map(({ id }) => id))

test('a synchronous standby is promoted: nothing is lost, and nobody is started again', async () => {
  const { arena, standby } = await openPair('sync')
  const expected = await planEachSecond(arena.client(), {
    job: 'each',
    count: 10,
    firstMs: nextSecond(10_000),
    seconds: 12,
  })
  const asked = await enqueueMany(arena.client(), taskJob({ queue: 'embedded' }), 40)
  await eventually(() => arena.ledger.calls.length > 30, 'runs', 30_000)
  await failOver(arena, standby)

  expect(await faultsOf(arena, expected)).toEqual([])
  const ends = await arena.rows<{ run_id: string }>(
    `SELECT run_id FROM belfry.attempt WHERE run_id = ANY($1) AND run_state = 'succeeded'`,
    [asked],
  )
  expect(ends.map((row) => row.run_id).toSorted()).toEqual(asked.toSorted())
  for (const node of arena.nodes.values()) {
    const moves = node.log.map(parseLine).filter((line) => line?.['event'] === 'database_moved')
    const to = new Set(moves.map((line) => line?.['host']))
    expect(to, node.name).toEqual(new Set([`127.0.0.1:${standby.port}`]))
    expect(node.log.join('\n')).not.toContain(arena.password)
  }
})

test('an asynchronous standby is promoted: what it had is kept, the rest is forgotten', async () => {
  const { arena, standby } = await openPair('async')
  const client = arena.client()
  const expected = await planEachSecond(client, {
    job: 'each',
    count: 10,
    firstMs: nextSecond(10_000),
    seconds: 14,
  })
  const late = { kind: 'http', url: `${arena.ledger.url}/work` } as const
  const job = await client.jobs.create({ name: 'late', handler: late, retry })
  await eventually(() => arena.ledger.calls.length > 30, 'runs', 30_000)
  await standby.caughtUp()
  await standby.holdBack()

  // a version that the standby never sees, run and so remembered by the workers
  const { version } = await client.jobs.update(job.id, { handler: { ...late, url: `${late.url}?lost` } })
  const lost = await client.runs.create({ job: 'late' })
  await eventually(() => arena.ledger.calls.some((call) => call.path === '/work?lost'), 'the run', 20_000)
  const before = arena.ledger.calls.length
  await eventually(() => arena.ledger.calls.length > before + 20, 'more runs', 20_000)
  const promotedMs = await failOver(arena, standby)
  await expect(client.runs.get(lost.id)).rejects.toMatchObject({ code: 'not_found' })

  // the next version has the same number, and other contents
  const again = await client.jobs.update(job.id, { handler: { ...late, url: `${late.url}?kept` } })
  expect(again.version).toBe(version)
  const kept = await client.runs.create({ job: 'late' })
  await eventually(() => arena.ledger.calls.some((call) => call.runId === kept.id), 'the run', 30_000)
  expect(arena.ledger.calls.find((call) => call.runId === kept.id)?.path).toBe('/work?kept')

  // of schedules: runs that are known no more, and runs whose end was lost, which were called once more
  await untilQuiet(arena, Date.now() + 60_000).then((sql) => sql.end())
  const known = await runsInDatabase(arena)
  const laterCalled = new Set(
    arena.ledger.calls.filter(({ atMs }) => atMs > promotedMs).map(({ runId }) => runId),
  )
  const isLost = ({ runId, atMs }: RecordedCall): boolean =>
    !known.has(runId) || (atMs <= promotedMs && laterCalled.has(runId))
  expect(arena.ledger.calls.filter(isLost).map(({ runId }) => runId)).toContain(lost.id)
  const scheduled = (call: RecordedCall) => call.runId !== kept.id && !isLost(call)
  expect(await faultsOf(arena, expected, scheduled)).toEqual([])
})
