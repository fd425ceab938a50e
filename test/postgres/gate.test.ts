// The gate on a real Postgres: limits of jobs, keys, pools and tenants, rates, what happens at the limit,
// pauses, and the order in which groups of a pool take turns.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createGateRig, type GateRig, type PoolColumns } from '../support/gate-rig.ts'
import { newId, retriedEnd } from '../support/running.ts'

let rig: GateRig
beforeAll(async () => {
  rig = await createGateRig()
})
afterAll(() => rig.drop())

async function addPool(tenantId: string, fields: Omit<PoolColumns, 'name'>) {
  const name = `pool-${newId()}`
  return { id: await rig.addPool(tenantId, { name, ...fields }), name }
}

async function refresh(tenantId: string): Promise<void> {
  await rig.database.sql(`UPDATE belfry.job AS j SET limited = belfry.job_limited(j) WHERE tenant_id = $1`, [
    tenantId,
  ])
  await rig.database.sql('SELECT belfry.request_regate($1)', [tenantId])
}

describe('without limits', () => {
  it('a run never stands behind the gate', async () => {
    const job = await rig.limitedJob({})
    const [id = ''] = await rig.enqueue(job, 1)
    const row = (await rig.rows()).get(id)
    expect(row).toMatchObject({ gate: null, slotted: false })
    await rig.succeed(await rig.claim(10))
  })
})

describe('runs at once', () => {
  it('lets in as many as the limit, and the next as soon as one ends', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 2 } })
    const ids = await rig.enqueue(job, 5)
    expect(await rig.open(ids)).toEqual([])
    expect(await rig.lookAll()).toBe(2)
    expect(await rig.open(ids)).toEqual(ids.slice(0, 2))
    const claimed = await rig.claim(10)
    expect(claimed.map(({ runId }) => runId)).toEqual(ids.slice(0, 2))
    expect(await rig.lookAll()).toBe(0)
    await rig.succeed(claimed.slice(0, 1))
    expect(await rig.lookAll()).toBe(1)
    expect(await rig.open(ids.slice(1))).toEqual(ids.slice(1, 3))
    await rig.succeed([...claimed.slice(1), ...(await rig.claim(10))])
    await rig.lookAll()
    await rig.succeed(await rig.claim(10))
    await rig.lookAll()
    await rig.succeed(await rig.claim(10))
    expect(await rig.lookAll()).toBe(0)
    expect(await rig.used()).toEqual({})
    const groups = await rig.database.sql('SELECT 1 FROM belfry.gate_group')
    expect(groups).toEqual([])
  })

  it('counts by key of the input, a field or a pointer; those without share one', async () => {
    const job = await rig.limitedJob({ concurrency: { key: '/customer/id' } })
    const inputs = [
      { customer: { id: 1 } },
      { customer: { id: 2 } },
      { customer: { id: 1 } },
      {},
      { customer: 3 },
    ]
    const ids = await rig.enqueue(job, 5, { inputs })
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual([ids[0], ids[1], ids[3]])
    await rig.succeed((await rig.claim(10)).filter(({ runId }) => runId === ids[0]))
    expect(await rig.lookAll()).toBe(1)
    expect(await rig.open(ids)).toContain(ids[2])
    await rig.database.sql('DELETE FROM belfry.ready; ')
    await rig.database.sql('UPDATE belfry.slot SET freed = true')
    await rig.lookAll()
  })

  it('a retry gives its slot to others while it waits, and comes back through the gate', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    const ids = await rig.enqueue(job, 2)
    await rig.lookAll()
    const [first] = await rig.claim(10)
    if (first === undefined) throw new Error('nothing was claimed')
    await rig.store.complete(first.sessionId, [retriedEnd(first)])
    await rig.lookAll()
    const [second] = await rig.claim(10)
    expect(second?.runId).toBe(ids[1])
    if (second !== undefined) await rig.succeed([second])
    await rig.database.sql('DELETE FROM belfry.delayed')
    await rig.lookAll()
    expect(await rig.used()).toEqual({})
  })

  it('ends what comes at the limit, where the job says skip', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1, onLimit: 'skip' } })
    const ids = await rig.enqueue(job, 3)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual([ids[0]])
    for (const id of ids.slice(1)) {
      expect(await rig.attempts(id)).toMatchObject([
        { number: 0, outcome: 'skipped', run_state: 'skipped', reason: 'concurrency_limit' },
      ])
    }
    await rig.succeed(await rig.claim(10))
    const [again = ''] = await rig.enqueue(job, 1)
    await rig.lookAll()
    expect(await rig.open([again])).toEqual([again])
    await rig.succeed(await rig.claim(10))
    await rig.lookAll()
  })

  it('puts the newest in the place of the older ones, where it says replace', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1, onLimit: 'replace' } })
    const [running = ''] = await rig.enqueue(job, 1)
    await rig.lookAll()
    const [claimed] = await rig.claim(10)
    if (claimed === undefined) throw new Error('nothing was claimed')
    const ids = await rig.enqueue(job, 3)
    await rig.lookAll()
    for (const id of ids.slice(0, 2))
      expect(await rig.attempts(id)).toMatchObject([{ number: 0, run_state: 'canceled', reason: 'replaced' }])
    expect((await rig.rows()).get(running)).toMatchObject({ cancel_reason: 'replaced' })
    expect(await rig.open(ids)).toEqual([])
    await rig.store.complete(claimed.sessionId, [retriedEnd(claimed, { outcome: 'canceled' })])
    expect(await rig.attempts(running)).toMatchObject([{ run_state: 'canceled', reason: 'replaced' }])
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual([ids[2]])
    // opened, but not claimed yet: the next one takes its place at once
    const [newest = ''] = await rig.enqueue(job, 1)
    await rig.lookAll()
    expect(await rig.attempts(ids[2] ?? '')).toMatchObject([{ reason: 'replaced' }])
    expect(await rig.open([newest])).toEqual([newest])
    await rig.succeed(await rig.claim(10))
    await rig.lookAll()
  })
})

describe('pools', () => {
  it('share slots by weight, in the order of tags, and nobody passes by a heavier one', async () => {
    const tenantId = await rig.addTenant()
    const pool = await addPool(tenantId, { slots: 4 })
    const light = await rig.limitedJob({ concurrency: { pools: [{ name: pool.name }] } }, tenantId)
    const heavy = await rig.limitedJob({ concurrency: { pools: [{ name: pool.name, weight: 3 }] } }, tenantId)
    const [l1 = '', l2 = ''] = await rig.enqueue(light, 2, { firstTag: 1 })
    const [h1 = ''] = await rig.enqueue(heavy, 1, { firstTag: 3 })
    const [l3 = ''] = await rig.enqueue(light, 1, { firstTag: 4 })
    await rig.lookAll()
    expect(await rig.open([l1, l2, h1, l3])).toEqual([l1, l2])
    expect((await rig.used())[`pool:${pool.id}`]).toBe(2)
    await rig.succeed((await rig.claim(10)).filter(({ runId }) => runId === l1))
    await rig.lookAll()
    expect(await rig.open([l2, h1, l3])).toEqual([l2, h1])
    const rest = await rig.database.sql<{ run_id: string; lease_epoch: number; session_id: string }>(
      'SELECT run_id, lease_epoch::int, session_id FROM belfry.ready WHERE run_id = $1',
      [l2],
    )
    await rig.succeed(
      rest.map((row) => ({ runId: row.run_id, leaseEpoch: row.lease_epoch, sessionId: row.session_id })),
    )
    await rig.lookAll()
    expect(await rig.open([h1, l3])).toEqual([h1, l3])
    await rig.succeed(await rig.claim(10))
    await rig.lookAll()
  })

  it('take in the jobs that call their host, from the moment they are made', async () => {
    const tenantId = await rig.addTenant()
    const job = await rig.limitedJob({ url: 'https://Api.Example.com:8443/x?y' }, tenantId)
    const other = await rig.limitedJob({ url: 'https://example.com/' }, tenantId)
    const before = await rig.enqueue(job, 3)
    const pool = await addPool(tenantId, { slots: 1, host: 'api.example.com' })
    await refresh(tenantId)
    const after = await rig.enqueue(job, 1, { firstTag: 4 })
    const free = await rig.enqueue(other, 2)
    await rig.lookAll()
    expect(await rig.open([...before, ...after])).toEqual(before.slice(0, 1))
    expect(await rig.open(free)).toEqual(free)
    await rig.database.sql('DELETE FROM belfry.pool WHERE id = $1', [pool.id])
    await refresh(tenantId)
    await rig.lookAll()
    expect(await rig.open([...before, ...after])).toHaveLength(4)
    await rig.succeed(await rig.claim(20))
    await rig.lookAll()
  })

  it('take turns: groups of one pool come in the order of their tags', async () => {
    const tenantId = await rig.addTenant()
    const pool = await addPool(tenantId, { slots: 1 })
    const jobs = await Promise.all(
      [1, 2, 3].map(() => rig.limitedJob({ concurrency: { pools: [{ name: pool.name }] } }, tenantId)),
    )
    const ids: string[][] = []
    for (const [index, job] of jobs.entries()) {
      const each = []
      for (let turn = 0; turn < 4; turn++)
        each.push(...(await rig.enqueue(job, 1, { firstTag: 1 + turn * 3 + index })))
      ids.push(each)
    }
    const order: string[] = []
    for (let turn = 0; turn < 12; turn++) {
      await rig.lookAll()
      const claimed = await rig.claim(10)
      expect(claimed).toHaveLength(1)
      order.push(...claimed.map(({ runId }) => runId))
      await rig.succeed(claimed)
    }
    expect(order).toEqual([0, 1, 2, 3].flatMap((turn) => ids.map((each) => each[turn])))
    await rig.lookAll()
  })
})

describe('the limit of a tenant', () => {
  it('counts all of its runs, also of jobs without limits, and leaves other tenants alone', async () => {
    const tenantId = await rig.addTenant()
    const job = await rig.limitedJob({}, tenantId)
    const other = await rig.limitedJob({ concurrency: { limit: 5 } }, tenantId)
    await rig.database.sql('UPDATE belfry.tenant SET run_limit = 2 WHERE id = $1', [tenantId])
    await refresh(tenantId)
    const ids = [...(await rig.enqueue(job, 2)), ...(await rig.enqueue(other, 2, { firstTag: 3 }))]
    const foreign = await rig.enqueue(await rig.limitedJob({}), 3)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids.slice(0, 2))
    expect(await rig.open(foreign)).toEqual(foreign)
    await rig.succeed(await rig.claim(20))
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids.slice(2))
    await rig.succeed(await rig.claim(20))
    await rig.lookAll()
  })
})

describe('rates', () => {
  it('let a burst in, then one for each token; each attempt takes one', async () => {
    const job = await rig.limitedJob({ rateLimit: { count: 1, perMs: 3_600_000, burst: 2 } })
    const ids = await rig.enqueue(job, 4)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids.slice(0, 2))
    const [bucket] = await rig.database.sql<{ wait_s: number }>(
      'SELECT extract(epoch FROM look_at - belfry.now())::float8 AS wait_s FROM belfry.bucket',
    )
    expect(bucket?.wait_s).toBeGreaterThan(3_500)
    // half an hour later nothing is due yet, another half later one is
    const later = (interval: string) =>
      rig.database.sql(`UPDATE belfry.bucket SET at = at - $1::interval, look_at = look_at - $1::interval`, [
        interval,
      ])
    await later('30 min')
    expect(await rig.lookAll()).toBe(0)
    await later('30 min')
    expect(await rig.lookAll()).toBe(1)
    expect(await rig.open(ids)).toEqual(ids.slice(0, 3))
    await rig.database.sql('DELETE FROM belfry.ready')
    await later('60 min')
    await rig.lookAll()
    await rig.database.sql('DELETE FROM belfry.bucket')
  })
})

describe('a pause', () => {
  it('of a job holds what waits and what comes, lets what runs go on, and ends with a resume', async () => {
    const job = await rig.limitedJob({})
    const ids = await rig.enqueue(job, 3)
    const [running] = await rig.claim(1)
    await rig.database.sql(`UPDATE belfry.job SET paused_at = now(), paused_reason = 'x' WHERE id = $1`, [
      job.id,
    ])
    ids.push(...(await rig.enqueue(job, 1, { firstTag: 9 })))
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual([running?.runId])
    expect(await rig.claim(10)).toEqual([])
    await rig.database.sql('UPDATE belfry.job SET paused_at = NULL, paused_reason = NULL WHERE id = $1', [
      job.id,
    ])
    await rig.lookAll()
    const rest = await rig.claim(10)
    expect(rest.map(({ runId }) => runId).toSorted()).toEqual(ids.slice(1).toSorted())
    await rig.succeed([...(running === undefined ? [] : [running]), ...rest])
    await rig.lookAll()
    expect(await rig.database.sql('SELECT 1 FROM belfry.gate_group')).toEqual([])
  })

  it('of a queue holds the runs of this tenant in it and no others', async () => {
    const tenantId = await rig.addTenant()
    const job = await rig.limitedJob({}, tenantId)
    const ids = await rig.enqueue(job, 2, { queue: 'slow' })
    const elsewhere = await rig.enqueue(job, 1, { queue: 'default' })
    const foreign = await rig.enqueue(await rig.limitedJob({}), 1, { queue: 'slow' })
    await rig.database.sql(
      `INSERT INTO belfry.queue_pause (tenant_id, queue, reason) VALUES ($1, 'slow', 'x')`,
      [tenantId],
    )
    await refresh(tenantId)
    await rig.lookAll()
    expect(await rig.open([...ids, ...elsewhere, ...foreign])).toEqual([...elsewhere, ...foreign])
    await rig.database.sql('DELETE FROM belfry.queue_pause')
    await refresh(tenantId)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids)
  })
})
