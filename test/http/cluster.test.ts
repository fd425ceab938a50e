// The installation as the API and the command line tell of it: processes, shards, lag, skew and problems,
// with lengths of time that are true whatever the clock of the reader says.
import { clusterSchema } from '@belfry/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createPostgresLeadership, createTermLedger } from '../../packages/server/src/postgres/leadership.ts'
import { createPostgresNodeRecords } from '../../packages/server/src/postgres/nodes.ts'
import type { NodeReport } from '../../packages/server/src/ports/nodes.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { runAlone } from '../cli/support/cli.ts'
import { newId } from '../support/running.ts'

let t: TestApi
let key: string
let url: string
const start = Date.parse('2031-02-03T04:05:06.000Z')
const at = (ms: number) => t.database.useVirtualNow(new Date(start + ms))

beforeAll(async () => {
  t = await startTestApi()
  key = await t.keyFor('acme', ['platform'])
  url = await t.api.listen({ host: '127.0.0.1', port: 0 })
})
beforeEach(async () => {
  await at(0)
  await t.database.sql('DELETE FROM belfry.node')
  await t.database.sql('DELETE FROM belfry.scheduler_node')
  await t.database.sql(`UPDATE belfry.shard_term SET owner_id = NULL, expires_at = '-infinity', term = 0`)
})
afterAll(() => t.close())

const cluster = async () => clusterSchema.parse((await t.call('GET', '/v1/cluster', { key })).body)

const report = (more: Partial<NodeReport> = {}): NodeReport => ({
  id: newId(),
  host: 'alpha',
  version: '1.0.0',
  roles: ['api', 'scheduler', 'worker', 'resolver'],
  skew: { ms: 2.4, errorMs: 0.4 },
  lagMs: 12.3,
  worker: { queues: ['*'], slots: 50, busy: 7 },
  parts: [],
  ...more,
})
const records = () => createPostgresNodeRecords(t.db)
const codes = async () => (await cluster()).problems.map(({ code }) => code)

describe('GET /v1/cluster', () => {
  it('tells of an installation that has not begun', async () => {
    expect(await cluster()).toMatchObject({
      state: 'failing',
      nodes: [],
      shards: { total: 64, held: 0 },
      lag: { timersMs: 0, delayedMs: 0 },
      versions: [],
      problems: [{ code: 'no_scheduler' }],
    })
  })

  it('tells of processes, who leads what, and until when', async () => {
    const [a, b] = [report(), report({ host: 'beta', roles: ['scheduler'], worker: null, lagMs: null })]
    await records().report(a, 20_000)
    await at(1_000)
    await records().report(b, 20_000)
    const leadership = createPostgresLeadership(t.db)
    await leadership.renew({ id: a.id, host: 'alpha', version: '1' }, 15_000)
    await leadership.renew({ id: b.id, host: 'beta', version: '1' }, 15_000)
    await at(3_000)
    await leadership.renew({ id: a.id, host: 'alpha', version: '1' }, 15_000)
    await leadership.renew({ id: b.id, host: 'beta', version: '1' }, 15_000)
    await records().report({ ...a, worker: { queues: ['*'], slots: 50, busy: 9 } }, 20_000)
    await at(5_000)
    const seen = await cluster()
    expect(seen).toMatchObject({
      time: '2031-02-03T04:05:11.000Z',
      state: 'ok',
      problems: [],
      shards: { held: 64 },
      versions: [{ version: '1.0.0', nodes: 2 }],
    })
    expect(seen.nodes).toMatchObject([
      {
        id: a.id,
        host: 'alpha',
        state: 'alive',
        startedAt: '2031-02-03T04:05:06.000Z',
        upMs: 5_000,
        seenAgoMs: 2_000,
        shards: 32,
        skewMs: 2,
        skewErrorMs: 1,
        lagMs: 12,
        worker: { queues: ['*'], slots: 50, busy: 9 },
        parts: [],
      },
      { id: b.id, upMs: 4_000, seenAgoMs: 4_000, shards: 32, lagMs: null, worker: null },
    ])
    expect(seen.shards.items).toHaveLength(64)
    expect(new Set(seen.shards.items.map(({ endsInMs }) => endsInMs))).toEqual(new Set([13_000]))
    await at(17_500)
    expect(await cluster()).toMatchObject({ shards: { held: 64 } })
    // the terms are over, and nobody has renewed them
    await at(18_000)
    const later = await cluster()
    expect(later).toMatchObject({ state: 'degraded', shards: { held: 0 } })
    expect(later.shards.items[0]).toEqual({ shard: 0, term: 1, nodeId: null, endsInMs: null })
  })

  it('follows leaders by Redis, whose terms end with them', async () => {
    const a = report()
    await records().report(a, 20_000)
    const shards = Array.from({ length: 64 }, (_, shard) => shard)
    await createTermLedger(t.db).hold(
      { id: a.id, host: 'alpha', version: '1' },
      { shards, others: [] },
      15_000,
    )
    const { shards: led } = await cluster()
    expect(led.items[5]).toEqual({ shard: 5, term: 1, nodeId: a.id, endsInMs: null })
    await at(15_500)
    expect((await cluster()).shards.held).toBe(0)
  })

  it('names processes that went silent, for some minutes, and not those that stopped', async () => {
    const [a, b] = [report(), report({ host: 'beta' })]
    await records().report(a, 20_000)
    await records().report(b, 20_000)
    await records().leave(b.id)
    await at(31_000)
    const seen = await cluster()
    expect(seen.nodes).toMatchObject([{ id: a.id, state: 'silent', seenAgoMs: 31_000 }])
    expect(seen.problems.map(({ code }) => code)).toEqual(['no_scheduler', 'node_silent'])
    await records().forget()
    expect((await cluster()).nodes).toHaveLength(1)
    await at(11 * 60_000)
    await records().forget()
    expect((await cluster()).nodes).toEqual([])
  })

  it('measures what is overdue', async () => {
    await records().report(report(), 60_000)
    await t.call('POST', '/v1/jobs', { body: httpJob('overdue') })
    const runAt = new Date(start + 7_000).toISOString()
    await t.call('POST', '/v1/runs', { body: { job: 'overdue', runAt } })
    const made = await t.call('POST', '/v1/schedules', {
      body: { name: 'late', every: '10s', job: 'overdue' },
    })
    const dueMs = Date.parse(made.body.nextAt) - start
    expect(await cluster()).toMatchObject({ lag: { timersMs: 0, delayedMs: 0 } })
    await at(dueMs + 8_000)
    expect(await cluster()).toMatchObject({ lag: { timersMs: 8_000, delayedMs: dueMs + 1_000 } })
    expect(await codes()).toContain('timers_late')
    await t.call('DELETE', `/v1/schedules/${made.body.id}`)
    await t.database.sql('DELETE FROM belfry.delayed')
  })

  it('tells what is away, skewed, and of which versions', async () => {
    const parts = [{ part: 'redis', state: 'away', fault: 'connection refused', since_ms: start - 90_000 }]
    await records().report(report({ parts }), 20_000)
    await records().report(report({ version: '1.1.0', skew: { ms: -3_600_000, errorMs: 3 } }), 20_000)
    const seen = await cluster()
    expect(seen.nodes[0]?.parts).toEqual([
      { part: 'redis', state: 'away', fault: 'connection refused', forMs: 90_000 },
    ])
    const found = seen.problems.map(({ code }) => code)
    expect(found).toEqual(expect.arrayContaining(['part_away', 'clock_skew', 'mixed_versions']))
  })

  it('is for the platform only', async () => {
    expect((await t.call('GET', '/v1/cluster')).body).toMatchObject({ status: 403, code: 'forbidden' })
  })
})

describe('belfry cluster status', () => {
  it('shows lengths of time by the clock of the database, whatever the clock here says', async () => {
    const env = { BELFRY_URL: url, BELFRY_API_KEY: key, XDG_CONFIG_HOME: '/nonexistent' }
    const a = report({ skew: { ms: 1_500, errorMs: 300 } })
    await records().report(a, 20_000)
    await createPostgresLeadership(t.db).renew({ id: a.id, host: 'alpha', version: '1' }, 15_000)
    await at(31_000)
    for (const now of [0, start, start + 10 * 3_600_000]) {
      const { code, out } = await runAlone(['cluster', 'status'], { env, now: () => now })
      expect(code).toBe(0)
      expect(out).toMatch(/^State +failing/m)
      expect(out).toMatch(/^Fault +No process with the role scheduler is alive.*\(no_scheduler\)/m)
      expect(out).toMatch(/^Shards +0 of 64 are led/m)
      expect(out).toMatch(
        /alpha +api,scheduler,worker,resolver +1\.0\.0 +silent for 31s +31s +- +7\/50 +12 ms +\+1\.5 s ±300/,
      )
    }
    const checked = await runAlone(['cluster', 'status', '--check', '-o', 'json'], { env })
    expect(checked.code).toBe(1)
    expect(clusterSchema.parse(JSON.parse(checked.out)).nodes[0]?.id).toBe(a.id)
    const names = await runAlone(['cluster', 'status', '-o', 'name'], { env })
    expect(names.out).toBe(`${a.id}\n`)
  })

  it('and belfry queue stats', async () => {
    const env = { BELFRY_URL: url, BELFRY_API_KEY: t.adminKey, XDG_CONFIG_HOME: '/nonexistent' }
    const shown = await runAlone(['queue', 'stats', 'default', '--min', '3', '--target-start-delay', '2s'], {
      env,
    })
    expect(shown.code).toBe(0)
    expect(shown.out).toMatch(/^Queue +default/m)
    expect(shown.out).toMatch(/^Servers +\d+ wait/m)
    expect(shown.out).toMatch(/wanted: 3\./)
    const wrong = await runAlone(['queue', 'stats', 'default', '--min', '3', '--max', '2'], { env })
    expect(wrong).toMatchObject({ code: 1, err: expect.stringContaining('--min') as string })
    const all = await runAlone(['queue', 'stats', 'default', '--all-tenants'], { env })
    expect(all).toMatchObject({ code: 4, err: expect.stringContaining('platform') as string })
  })
})
