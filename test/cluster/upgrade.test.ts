// From the version before to this one, on one database and under load: the schema is brought up to date
// beneath processes of the old version, both versions work side by side on rows of both, then the old ones
// are replaced one by one. Nothing is lost, and nobody who does not fit the schema starts.
import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { describeNeeding } from '../support/needs.ts'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { takeVersionBefore } from './support/version-before.ts'

const harness = arenaHarness()

const isReady = async ({ nodes }: Arena, name: string): Promise<boolean> =>
  (await fetch(`${nodes.get(name)?.opsUrl}/readyz`)).status === 200

async function replace(arena: Arena, name: string): Promise<void> {
  arena.nodes.get(name)?.signal('SIGTERM')
  expect(await arena.nodes.get(name)?.ended, name).toBe(0)
  await arena.start(name)
}

async function refusal(arena: Arena, under: readonly string[]): Promise<string> {
  const node = arena.spawn('refused', {}, under)
  expect(await node.ended).toBe(1)
  return node.log.join('\n')
}

describeNeeding('history', 'with the version before', (commit) => {
  test('an upgrade under load loses nothing', { timeout: 480_000 }, async () => {
    const before = takeVersionBefore(commit, harness.defer)
    const arena = await harness.open({ before })
    for (const name of ['a', 'b']) await arena.start(name, {}, before.under)
    expect(await refusal(arena, [])).toMatch(/schema is older than this Belfry .* Run: belfry server migrate/)
    const client = arena.client()
    const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
    const retry = { maxAttempts: 20, baseMs: 200, capMs: 1_000 }
    await client.jobs.create({ name: 'each', handler, retry, attemptTimeoutMs: 20_000 })
    const other = { ...handler, url: `${arena.ledger.url}/work?other` }
    const { id: otherId } = await client.jobs.create({ name: 'other', handler: other, retry })
    const tasks = [
      { id: 'first', job: 'other' },
      { id: 'second', job: 'other', needs: ['first'] },
    ]
    await client.workflows.apply({ name: 'pair', tasks })
    const plan = { job: 'each', count: 10, firstMs: nextSecond(10_000), seconds: 40 }
    const expected = await planEachSecond(client, plan)
    const workflowRuns: string[] = []
    const begin = async (name?: string): Promise<void> => {
      const { id } = await arena.client(name).workflowRuns.create({ workflow: 'pair' })
      workflowRuns.push(id)
    }
    await begin()
    await eventually(() => arena.ledger.calls.length > 20, 'runs of the old version', 30_000)

    // first the schema
    const migrated = await migrate(arena.postgres.adminConnection, { log: () => undefined })
    expect(migrated.length).toBeGreaterThan(0)
    for (const name of ['a', 'b']) expect(await isReady(arena, name), `${name} goes on`).toBe(true)
    expect(await refusal(arena, before.under)).toMatch(/schema is newer than this Belfry/)

    // then one process after the other
    await arena.start('c')
    // what the new one stores, the old ones execute
    await arena.client('c').jobs.create({ name: 'young', handler: other, retry })
    await arena.client('c').jobs.update(otherId, { priority: 1 })
    const asked: string[] = []
    for (const name of ['a', 'c']) {
      await begin(name)
      const ask = (_: unknown, index: number) =>
        arena.client(name).runs.create({ job: index % 2 === 0 ? 'young' : 'other' })
      const runs = await Promise.all(Array.from({ length: 20 }, ask))
      asked.push(...runs.map(({ id }) => id))
    }
    const allCalled = (): boolean => {
      const called = new Set(arena.ledger.calls.map(({ runId }) => runId))
      return asked.every((id) => called.has(id))
    }
    await eventually(allCalled, 'runs of both versions', 60_000)
    for (const name of ['a', 'b', 'c']) expect(await isReady(arena, name), name).toBe(true)
    for (const name of ['a', 'b']) await replace(arena, name)
    await begin('b')
    const key = await arena.keyOf('others')
    const cli = spawnSync(process.execPath, [before.launcher, 'job', 'list', '-o', 'json'], {
      env: { ...process.env, BELFRY_URL: arena.nodes.get('b')?.apiUrl, BELFRY_API_KEY: key },
      encoding: 'utf8',
    })
    expect([cli.status, cli.stdout], cli.stderr).toEqual([0, expect.stringContaining('"items": []')])

    const sql = await untilQuiet(arena, Date.now() + 90_000)
    harness.defer(() => sql.end())
    const succeeded = `SELECT FROM belfry.workflow_run WHERE id = ANY($1) AND state = 'succeeded'`
    const ended = async () => (await arena.rows(succeeded, [workflowRuns])).length === workflowRuns.length
    await eventually(ended, 'the workflow runs succeed', 30_000)
    // of schedules alone
    const calls = arena.ledger.calls.filter(({ path }) => path === '/work')
    const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
    expect(faults.slice(0, 20)).toEqual([])
  })
})
