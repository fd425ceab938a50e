// A workflow run that cannot be moved on: it rests, is tried again, and holds up no other. What makes a
// database refuse an input is found before, and fails the task. And what the resolver tells of its work.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BelfryError, type JsonValue } from '@belfry/contract'
import type { WorkflowResolving } from '../../packages/server/src/ports/workflow-runs.ts'
import { eventually, recordEvents, succeededEnd } from '../support/running.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.fixture.database.sql<Row>(text, [...params])
const chain = {
  tasks: [
    { id: 'a', job: 'x' },
    { id: 'b', job: 'x', needs: ['a'], inputFrom: [{ to: '', task: 'a', path: '' }] },
  ],
}
const setVersion = (id: string, version: number) =>
  sql(`UPDATE belfry.workflow_progress SET version = $2 WHERE workflow_run_id = $1`, [id, version])
const startedOf = async (ids: readonly string[]) => {
  const rows = await sql<{ id: string }>(
    `SELECT DISTINCT workflow_run_id AS id FROM belfry.run WHERE workflow_run_id = ANY ($1::uuid[])`,
    [ids],
  )
  return rows.map(({ id }) => id).toSorted()
}

describe('a workflow run that cannot be moved on', () => {
  it('rests and is told of; the others go on, and so does it when its cause is gone', async () => {
    const ids = await Promise.all(Array.from({ length: 7 }, () => rig.begin(chain)))
    const bad = [ids[2] ?? '', ids[5] ?? '']
    for (const id of bad) await setVersion(id, 99)
    const events = recordEvents()
    const resolver = rig.newResolver(rig.resolving, events)
    await resolver.runOnce()
    expect(await startedOf(ids)).toEqual(ids.filter((id) => !bad.includes(id)).toSorted())
    const told = events.of('role_failed')
    expect(told.map(({ role }) => role)).toEqual(['resolver', 'resolver'])
    const words = told.map(({ error }) => String(error)).join('\n')
    for (const id of bad) expect(words).toContain(id)
    expect(words).toContain('cancel it, or look at the cause')
    // while it rests nobody looks at it, whatever else comes
    const next = await rig.begin(chain)
    await resolver.runOnce()
    expect(await startedOf([next])).toEqual([next])
    expect(events.of('role_failed')).toHaveLength(2)
    for (const id of bad) await setVersion(id, 1)
    await eventually(async () => {
      await resolver.runOnce()
      return (await startedOf(bad)).length === 2
    }, 'the end of their rest')
  })

  it('is not blamed for what is the database’s', async () => {
    const id = await rig.begin(chain)
    const events = recordEvents()
    let cuts = 2
    const away: WorkflowResolving = {
      ...rig.resolving,
      within: (work) =>
        rig.resolving.within(async (tx) => {
          const result = await work(tx)
          if (cuts-- > 0) throw new BelfryError('database_unavailable', 'Wait a moment.')
          return result
        }),
    }
    const resolver = rig.newResolver(away, events)
    for (let tries = 0; tries < 2; tries++)
      await expect(resolver.runOnce()).rejects.toMatchObject({ code: 'database_unavailable' })
    await resolver.runOnce()
    expect(await startedOf([id])).toEqual([id])
    expect(events.of('role_failed')).toEqual([])
  })
})

describe('what nobody told of', () => {
  it('is found by looking: a workflow run that nothing would move on', async () => {
    const [begun, under] = [await rig.begin(chain), await rig.begin(chain)]
    await sql(`DELETE FROM belfry.workflow_event WHERE workflow_run_id = $1`, [begun])
    await rig.resolver.runOnce()
    expect(await startedOf([begun, under])).toEqual([under])
    expect(await rig.resolving.mend()).toBe(1)
    await rig.resolver.runOnce()
    expect(await startedOf([begun])).toEqual([begun])
    // each has a task at work
    expect(await rig.resolving.mend()).toBe(0)
  })

  it('waits behind no events of what is over', async () => {
    await sql(
      `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
       SELECT gen_random_uuid(), $1, 'begin' FROM generate_series(1, 3000)`,
      [rig.fixture.tenantId],
    )
    const id = await rig.begin(chain)
    await rig.resolver.runOnce()
    expect(await startedOf([id])).toHaveLength(1)
    expect(await sql(`SELECT FROM belfry.workflow_event`)).toEqual([])
  })
})

describe('an output that no database keeps', () => {
  it.each([
    ['a NUL character', '{"x":"a\\u0000b"}', /^its input \/x must not contain a NUL character/],
    ['half of a surrogate pair', '["\\ud800"]', /^its input \/0 must not contain half of a surrogate pair/],
    ['nested too deep', `${'['.repeat(300)}${']'.repeat(300)}`, /^its input is nested deeper than/],
  ])('fails the task that it is given to: %s', async (_, response, why) => {
    const id = await rig.begin(chain)
    await rig.resolver.runOnce()
    for (const run of await rig.claim())
      await rig.fixture.store.complete(rig.sessionId, [succeededEnd(run, { response })])
    await rig.resolver.runOnce()
    expect(await rig.standing(id)).toMatchObject({
      state: 'failed',
      tasks: { a: 'succeeded', b: 'failed' },
      notes: { 1: expect.stringMatching(why) as string },
    })
  })
})

describe('a resolver', () => {
  it('tells what it moved on, how it ended, and how long what had happened waited', async () => {
    const events = recordEvents()
    const resolver = rig.newResolver(rig.resolving, events)
    const output: JsonValue = { n: 1 }
    await rig.begin(chain)
    await resolver.runOnce()
    for (let hop = 0; hop < 2; hop++) {
      for (const run of await rig.claim()) await rig.end(run, 'succeeded', output)
      await resolver.runOnce()
    }
    const moved = events.of('workflows_moved')
    expect(moved.map((each) => each.ended).at(-1)).toEqual({ succeeded: expect.any(Number) as number })
    for (const { waitsMs, durationMs } of moved) {
      expect(waitsMs.length).toBeGreaterThan(0)
      for (const waitMs of waitsMs) expect(waitMs).toBeGreaterThanOrEqual(durationMs)
    }
  })

  it('knows how much there is to do, in all', async () => {
    await rig.resolver.runOnce()
    const before = await rig.resolving.backlog()
    expect(before).toMatchObject({ events: 0, oldestMs: 0 })
    const id = await rig.begin(chain)
    await sql(`UPDATE belfry.workflow_event SET at = at - interval '90 s' WHERE workflow_run_id = $1`, [id])
    const after = await rig.resolving.backlog()
    expect(after).toMatchObject({ events: 1, alive: before.alive + 1 })
    expect(after.oldestMs).toBeGreaterThan(90_000)
    await rig.resolver.start()
    const resolver = rig.newResolver()
    await resolver.start()
    await eventually(() => resolver.stats().alive > 0, 'its first look')
    await resolver.stop()
    expect((await rig.resolving.backlog()).events).toBe(0)
  })
})
