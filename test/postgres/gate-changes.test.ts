// Changes of limits on a real Postgres: runs that were being made or claimed meanwhile come under them too,
// what they cost with many jobs and groups, and one tenant whose gate fails or has much to do holds up no
// other.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createGatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import type { Gate } from '../../packages/server/src/ports/gate.ts'
import { createLimitStore } from '../../packages/server/src/postgres/catalog/limit-store.ts'
import { findRunTemplateById } from '../../packages/server/src/postgres/statements/jobs.ts'
import { insertReadyRun } from '../../packages/server/src/postgres/statements/runs.ts'
import { createGateRig, type GateJob, type GateRig } from '../support/gate-rig.ts'
import { realClock } from '../support/real-clock.ts'
import { eventually, recordEvents, recordHints, testIds } from '../support/running.ts'

let rig: GateRig
beforeAll(async () => {
  rig = await createGateRig()
})
afterAll(() => rig.drop())

const pause = (job: GateJob) =>
  rig.database.sql(`UPDATE belfry.job SET paused_at = belfry.now(), paused_reason = 'stop' WHERE id = $1`, [
    job.id,
  ])

const walksLeft = () => rig.database.sql('SELECT 1 FROM belfry.regate')

async function walked(): Promise<void> {
  await eventually(async () => {
    await rig.lookAll()
    return (await walksLeft()).length === 0
  }, 'the last walk is over')
}

const within = <T>(tenantId: string, work: (store: ReturnType<typeof createLimitStore>) => Promise<T>) =>
  rig.database
    .open({ maxConnections: 2 })
    .transaction({ role: 'belfry_app', tenantId }, (tx) => work(createLimitStore(tx, tenantId)))

async function otherTenant(): Promise<string> {
  const [row] = await rig.database.sql<{ id: string }>(
    `INSERT INTO belfry.tenant (id, name)
     VALUES (gen_random_uuid(), 'tenant-' || gen_random_uuid()) RETURNING id`,
  )
  return row?.id ?? ''
}

const addGroups = (job: GateJob, count: number) =>
  rig.database.sql(
    `INSERT INTO belfry.gate_group (gate, tenant_id, head_tag, waits_on)
     SELECT $2::text || '/' || md5(n::text) || '//default', $1, n, 'slot:key:' || md5(n::text)
     FROM generate_series(1, $3::int) AS n`,
    [job.tenantId, job.id, count],
  )

describe('a run that is made while limits change', () => {
  it('is held although its transaction had read the job before, and is committed long after', async () => {
    const job = await rig.limitedJob({})
    const id = testIds.uuidv7(Date.now())
    await rig.database
      .open({ maxConnections: 2 })
      .transaction({ role: 'belfry_app', tenantId: job.tenantId }, async (tx) => {
        const [template] = await tx.query(findRunTemplateById, [job.id])
        expect(template?.limited).toBe(false)
        await pause(job)
        await rig.lookAll()
        const now = new Date().toISOString()
        const columns = [
          id,
          job.id,
          1,
          null,
          'manual',
          'default',
          0,
          null,
          now,
          null,
          'http',
          60_000,
        ] as const
        await tx.query(insertReadyRun, [...columns, null, null, 1])
      })
    await rig.lookAll()
    expect(await rig.claim(10)).toEqual([])
    expect(await rig.open([id])).toEqual([])
    await walked()
  })

  it('is found although its transaction had written nothing when the first walk came by', async () => {
    const job = await rig.limitedJob({})
    const other = rig.database.open({ maxConnections: 2 })
    const id = testIds.uuidv7(Date.now())
    await other.transaction({ role: 'belfry_app', tenantId: job.tenantId }, async (tx) => {
      // a statement that has read the limits of before, and has written nothing yet
      await tx.query(findRunTemplateById, [job.id])
      await pause(job)
      await rig.lookAll()
      expect(await walksLeft()).toHaveLength(1)
      // what it will write then
      await rig.database.sql(
        `WITH made AS (
           INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
           VALUES ($1, $2, $3, 1, 'manual', 'default', 0, belfry.now()) RETURNING *)
         INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, priority, available_at,
        handler,
                                   timeout_ms, tag)
         SELECT id, tenant_id, job_id, 1, queue, 0, belfry.now(), 'http', 60000, 1 FROM made`,
        [id, job.tenantId, job.id],
      )
      // the walk is done again, and goes on to be: that transaction is still there
      await eventually(async () => {
        await rig.lookAll()
        return (await rig.database.sql('SELECT 1 FROM belfry.regate WHERE walks > 2')).length === 1
      }, 'the walk was done three times')
      expect(await rig.open([id])).toEqual([])
    })
    await walked()
    expect(await rig.claim(10)).toEqual([])
  })

  it('holds its slot when it was claimed in the midst of the walk', async () => {
    const job = await rig.limitedJob({})
    await rig.enqueue(job, 600)
    await rig.changeJob(job, { concurrency: { limit: 1 } })
    expect(await rig.gate.regate(job.tenantId)).toMatchObject({ more: true })
    // the first 500 are behind the gate; workers go on with what they find
    const claimed = await rig.claim(50)
    expect(claimed).toHaveLength(50)
    await walked()
    expect((await rig.used())[`job:${job.id}`]).toBe(50)
    expect(await rig.claim(50)).toEqual([])
    await rig.succeed(claimed)
    await rig.lookAll()
    expect((await rig.used())[`job:${job.id}`]).toBe(1)
    await rig.database.sql('DELETE FROM belfry.ready WHERE job_id = $1', [job.id])
  })

  it('is held when a claim had hold of it as the walk came by, and let go of it', async () => {
    const job = await rig.limitedJob({})
    const [id = ''] = await rig.enqueue(job, 1)
    await rig.database.open({ maxConnections: 2 }).transaction({ role: 'belfry_engine' }, async (tx) => {
      const hold = { name: 'test_hold', text: 'SELECT 1 FROM belfry.ready WHERE run_id = $1 FOR UPDATE' }
      await tx.query(hold, [id] as never)
      await rig.changeJob(job, { concurrency: { limit: 1 } })
      await rig.lookAll()
      expect((await rig.rows()).get(id)).toMatchObject({ gate: null, slotted: false })
    })
    await walked()
    expect((await rig.rows()).get(id)).toMatchObject({ gate: null, slotted: true })
    expect((await rig.used())[`job:${job.id}`]).toBe(1)
    await rig.succeed(await rig.claim(1))
  })

  it('takes no second token for a run that was let in when the walk is done again', async () => {
    const job = await rig.limitedJob({ rateLimit: { count: 1, perMs: 3_600_000 } })
    const ids = await rig.enqueue(job, 2)
    await rig.changeJob(job, { rateLimit: { count: 2, perMs: 3_600_000 } })
    await rig.lookAll()
    const open = await rig.open(ids)
    expect(open.length).toBeGreaterThan(0)
    await walked()
    expect(await rig.open(open)).toEqual(open)
    await rig.succeed(await rig.claim(2))
    await rig.database.sql('DELETE FROM belfry.ready WHERE job_id = $1', [job.id])
  })
})

describe('a job that was deleted', () => {
  const deleted = async () => {
    const job = await rig.limitedJob({}, await otherTenant())
    const ids = await rig.enqueue(job, 2)
    await rig.database.sql('UPDATE belfry.job SET deleted_at = belfry.now() WHERE id = $1', [job.id])
    return { job, ids }
  }

  it('has its waiting runs held by a pause of their queue, and let in again after it', async () => {
    const { job, ids } = await deleted()
    await within(job.tenantId, (store) => store.pauseQueue('default', 'stop'))
    await walked()
    expect(await rig.open(ids)).toEqual([])
    await within(job.tenantId, (store) => store.pauseQueue('default', null))
    await walked()
    expect(await rig.open(ids)).toHaveLength(2)
    await rig.succeed(await rig.claim(2))
  })

  it('has its waiting runs come under the limit of the tenant', async () => {
    const { job, ids } = await deleted()
    await within(job.tenantId, (store) => store.setTenantLimit(1))
    await walked()
    expect(await rig.open(ids)).toHaveLength(1)
    await rig.database.sql('DELETE FROM belfry.ready WHERE job_id = $1', [job.id])
  })
})

describe('with much to change', () => {
  it('pauses and resumes a queue of a tenant with ten thousand jobs', async () => {
    const tenantId = await otherTenant()
    await rig.database.sql(
      `INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
       SELECT gen_random_uuid(), $1, 'many-' || n, 'http', 'default', 0, 60000,
              '{"handler":{"kind":"http","url":"http://a.invalid/"}}'
       FROM generate_series(1, 10000) AS n`,
      [tenantId],
    )
    const limited = async () => {
      const rows = await rig.database.sql<{ limited: number; wrong: number }>(
        `SELECT count(*) FILTER (WHERE limited)::int AS limited,
                count(*) FILTER (WHERE limited <> belfry.job_limited(j))::int AS wrong
         FROM belfry.job AS j WHERE tenant_id = $1`,
        [tenantId],
      )
      return rows[0]
    }
    const startedMs = realClock.monotonicMs()
    await within(tenantId, (store) => store.pauseQueue('default', 'stop'))
    // of 6,700 once, which no request may take
    expect(realClock.monotonicMs() - startedMs).toBeLessThan(3_000)
    expect(await limited()).toEqual({ limited: 10_000, wrong: 0 })
    await within(tenantId, (store) => store.pauseQueue('default', null))
    expect(await limited()).toEqual({ limited: 0, wrong: 0 })
    await walked()
  })

  it('wakes groups page by page, and looks at other tenants in between', async () => {
    const job = await rig.limitedJob({ concurrency: { key: 'customerId' } }, await otherTenant())
    const other = await rig.limitedJob({ concurrency: { limit: 1 } }, await otherTenant())
    await addGroups(job, 5_000)
    await rig.changeJob(job, { concurrency: { key: 'customerId', limit: 5 } })
    const ids = await rig.enqueue(other, 1)
    const woken = async () =>
      (
        await rig.database.sql('SELECT 1 FROM belfry.gate_group WHERE tenant_id = $1 AND waits_on IS NULL', [
          job.tenantId,
        ])
      ).length
    expect(await rig.gate.regate(job.tenantId)).toMatchObject({ more: true })
    expect(await woken()).toBe(2_000)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids)
    await walked()
    expect(
      await rig.database.sql('SELECT 1 FROM belfry.gate_group WHERE tenant_id = $1', [job.tenantId]),
    ).toEqual([])
    await rig.succeed(await rig.claim(1))
  })
})

describe('a tenant whose gate fails', () => {
  it('is reported and left alone for a while; the others go on, and it is tried again', async () => {
    const mine = await rig.limitedJob({ concurrency: { limit: 1 } })
    const other = await rig.limitedJob({ concurrency: { limit: 1 } }, await otherTenant())
    const [a = ''] = await rig.enqueue(mine, 1)
    const [b = ''] = await rig.enqueue(other, 1)
    let broken = true
    const tried: string[] = []
    const gate: Gate = {
      ...rig.gate,
      look(tenantId) {
        tried.push(tenantId)
        if (broken && tenantId === mine.tenantId) throw new Error('its rows are too many')
        return rig.gate.look(tenantId)
      },
    }
    const events = recordEvents()
    const random = { next: () => 0.5 }
    const keeper = createGatekeeper({ gate, clock: realClock, random, events, hints: recordHints() })
    await keeper.runOnce()
    expect(await rig.open([a, b])).toEqual([b])
    await keeper.runOnce()
    expect(tried.filter((tenantId) => tenantId === mine.tenantId)).toHaveLength(1)
    expect(events.of('role_failed')).toHaveLength(1)
    broken = false
    await eventually(async () => {
      await keeper.runOnce()
      return (await rig.open([a])).length === 1
    }, 'its turn has come again')
    await rig.succeed(await rig.claim(2))
  })
})

describe('a walk that is done again for minutes', () => {
  it('is told of, with what to do', async () => {
    const tenantId = testIds.uuidv7(Date.now())
    let regateIds: readonly string[] = [tenantId]
    let walks = 9
    const gate: Gate = {
      ...rig.gate,
      work: async () => ({ tenantIds: [], regateIds, nextMs: null, held: false, limited: true }),
      regate: async () => ({ more: false, walks }),
      async look() {
        regateIds = []
        return undefined
      },
    }
    const events = recordEvents()
    const random = { next: () => 0.5 }
    const keeper = createGatekeeper({ gate, clock: realClock, random, events, hints: recordHints() })
    await keeper.runOnce()
    expect(events.of('role_failed')).toEqual([])
    walks = 10
    regateIds = [tenantId]
    await keeper.runOnce()
    const [told] = events.of('role_failed')
    expect(String(told?.error)).toContain(`${tenantId} were changed, and a transaction that was open then`)
  })
})

describe('a pool', () => {
  it('is not deleted once a job that is being made names it', async () => {
    const name = `pool-${testIds.uuidv7(Date.now())}`
    const id = await rig.addPool(rig.tenantId, { name, slots: 1 })
    const job = await rig.limitedJob({ concurrency: { pools: [{ name }] } })
    const jobName = `job-${job.id}`
    expect(await within(rig.tenantId, (store) => store.removePool({ id, name }))).toBe(jobName)
    await rig.changeJob(job, {})
    // who is about to write such a job has found it, and keeps it until then
    let removed: Promise<string | undefined> | undefined
    await within(rig.tenantId, async (store) => {
      expect(await store.missingPools([name])).toEqual([])
      removed = within(rig.tenantId, (other) => other.removePool({ id, name }))
      await eventually(async () => {
        const held = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
        return (await rig.database.sql(held)).length === 1
      }, 'the other waits')
    })
    expect(await removed).toBeUndefined()
    expect(await within(rig.tenantId, (store) => store.removePool({ id, name }))).toBeUndefined()
    expect(await within(rig.tenantId, (store) => store.findPool(id))).toBeUndefined()
    await walked()
  })
})
