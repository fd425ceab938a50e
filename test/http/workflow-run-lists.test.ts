// Lists of workflow runs by state, workflow, schedule and time, over the API and the command line: what a
// filter lets through, page by page, is what the same rows say when they are read one by one.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { workflowRunStates } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let env: Record<string, string>
const folder = mkdtempSync(join(tmpdir(), 'belfry-workflow-run-lists-'))
const handler = { kind: 'http', url: 'https://example.com/hook' }
const scheduleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const count = 60

/** One in each state in turn, of two workflows, an hour apart, the newest first; two are of a schedule. */
const rows = Array.from({ length: count }, (_, n) => ({
  state: workflowRunStates[n % workflowRunStates.length] ?? 'running',
  workflow: n % 7 === 0 ? 'rare' : 'usual',
  hoursAgo: n,
  ofSchedule: n === 3 || n === 9,
}))

beforeAll(async () => {
  t = await startTestApi()
  env = {
    XDG_CONFIG_HOME: folder,
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
  for (const name of ['usual', 'rare'])
    await t.call('POST', '/v1/workflows', { body: { name, tasks: [{ id: 'a', handler }] } })
  await t.database.sql(
    `WITH given AS (
       SELECT (left(belfry.uuid_floor(belfry.now() - hours_ago * interval '1 h')::text, 14)
                || '7000-8000-' || lpad(to_hex(1000 - number), 12, '0'))::uuid AS id,
              w.id AS workflow_id, w.tenant_id, belfry.now() - hours_ago * interval '1 h' AS created_at,
              CASE WHEN given.state IN ('pending', 'running') THEN NULL ELSE given.state END AS ended,
              given.state, CASE WHEN of_schedule THEN $5::uuid END AS schedule_id
       FROM unnest($1::text[], $2::text[], $3::integer[], $4::boolean[]) WITH ORDINALITY
         AS given (state, workflow, hours_ago, of_schedule, number)
       JOIN belfry.workflow w ON w.name = given.workflow
     ), made AS (
       INSERT INTO belfry.workflow_run
         (id, tenant_id, workflow_id, version, source, created_at, state, ended_at, schedule_id)
       SELECT id, tenant_id, workflow_id, 1, 'manual', created_at, ended,
              CASE WHEN ended IS NOT NULL THEN belfry.now() END, schedule_id FROM given
     )
     INSERT INTO belfry.workflow_progress
       (workflow_run_id, tenant_id, workflow_id, version, states, turn, waits)
     SELECT id, tenant_id, workflow_id, 1, '\\x00', 'main', state = 'pending' FROM given WHERE ended IS NULL`,
    [
      rows.map(({ state }) => state),
      rows.map(({ workflow }) => workflow),
      rows.map(({ hoursAgo }) => hoursAgo),
      rows.map(({ ofSchedule }) => ofSchedule),
      scheduleId,
    ],
  )
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await t.close()
})

type Listed = { id: string; state: string; workflow: string }

/** All pages. */
async function listed(query: string, limit = 4): Promise<Listed[]> {
  const all: Listed[] = []
  for (let cursor = ''; ; ) {
    const more = cursor === '' ? '' : `&cursor=${cursor}`
    const { status, body } = await t.call('GET', `/v1/workflow-runs?${query}&limit=${limit}${more}`)
    expect([status, body]).toMatchObject([200, {}])
    all.push(...(body.items as unknown as readonly Listed[]))
    if (body.nextCursor === null) return all
    cursor = body.nextCursor
  }
}

const wanted = (pass: (row: (typeof rows)[number]) => boolean) =>
  rows.filter(pass).map(({ state, workflow }) => `${workflow} ${state}`)
const shown = (items: readonly Listed[]) => items.map(({ state, workflow }) => `${workflow} ${state}`)

describe('by state', () => {
  it.each(workflowRunStates)('%s alone, newest first', async (state) => {
    expect(shown(await listed(`state=${state}`))).toEqual(wanted((row) => row.state === state))
  })

  it.each([
    ['failed', 'canceled'],
    ['running', 'succeeded'],
    ['pending', 'running', 'skipped'],
    workflowRunStates,
  ])('several of them: %s %s', async (...states) => {
    const its = await listed(`state=${states.join(',')}`)
    expect(shown(its)).toEqual(wanted((row) => states.includes(row.state)))
    expect(new Set(its.map(({ id }) => id)).size).toBe(its.length)
  })

  it('with a workflow, a schedule, a time', async () => {
    expect(shown(await listed('state=failed,running&workflow=rare'))).toEqual(
      wanted(({ state, workflow }) => workflow === 'rare' && ['failed', 'running'].includes(state)),
    )
    expect(shown(await listed(`state=failed&scheduleId=${scheduleId}`))).toEqual(
      wanted(({ state, ofSchedule }) => ofSchedule && state === 'failed'),
    )
    const after = new Date(Date.now() - 20.5 * 3_600_000).toISOString()
    const before = new Date(Date.now() - 9.5 * 3_600_000).toISOString()
    const between = (hoursAgo: number) => hoursAgo >= 10 && hoursAgo <= 20
    const range = `createdAfter=${after}&createdBefore=${before}`
    expect(shown(await listed(range))).toEqual(wanted(({ hoursAgo }) => between(hoursAgo)))
    expect(shown(await listed(`state=succeeded,pending&${range}`))).toEqual(
      wanted(({ state, hoursAgo }) => between(hoursAgo) && ['succeeded', 'pending'].includes(state)),
    )
    expect(shown(await listed(`workflow=rare&scheduleId=${scheduleId}`))).toEqual(
      wanted(({ workflow, ofSchedule }) => ofSchedule && workflow === 'rare'),
    )
  })

  it('of a workflow that does not exist: none; of another tenant: none', async () => {
    expect(await listed('state=failed&workflow=missing')).toEqual([])
    const other = await t.database.sql<{ id: string }>(`SELECT gen_random_uuid() AS id`)
    await t.database.sql(
      `INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source, state, ended_at)
       SELECT gen_random_uuid(), $1, id, 1, 'manual', 'failed', now() FROM belfry.workflow`,
      [other[0]?.id],
    )
    expect(shown(await listed('state=failed'))).toEqual(wanted(({ state }) => state === 'failed'))
  })

  it('refuses a state that there is not, and a cursor of another list', async () => {
    const wrong = await t.call('GET', '/v1/workflow-runs?state=done')
    expect(wrong.status).toBe(400)
    expect(wrong.body).toMatchObject({ code: 'invalid_request' })
    const { body } = await t.call('GET', '/v1/workflow-runs?state=failed&limit=1')
    const crossed = await t.call('GET', `/v1/workflow-runs?state=canceled&cursor=${String(body.nextCursor)}`)
    expect(crossed.body).toMatchObject({ code: 'invalid_cursor' })
  })
})

describe('on the command line', () => {
  const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })

  it('--state, --since and --until', async () => {
    const { out } = await belfry(
      'workflow-run',
      'list',
      '--state',
      'failed,canceled',
      '--since',
      '30h',
      '-o',
      'json',
    )
    const { items } = JSON.parse(out) as { items: Listed[] }
    expect(shown(items)).toEqual(
      wanted(({ state, hoursAgo }) => ['failed', 'canceled'].includes(state) && hoursAgo < 30),
    )
    const none = await belfry('workflow-run', 'list', '--state', 'failed', '--until', '2020-01-01T00:00:00Z')
    expect(none.err).toContain('No workflow runs match. See all: belfry workflow-run list')
  })

  it('names the states where one is wrong', async () => {
    const { code, err } = await belfry('workflow-run', 'list', '--state', 'done')
    expect(code).toBe(2)
    expect(err).toContain(`--state "done" is not one of ${workflowRunStates.join(', ')}`)
  })
})
