// What must hold of limits whatever happens around them: a crash at each statement of a look, gatekeepers at
// once, ends and arrivals at the same time, workers that are killed, limits that change, hints that never
// come.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createGatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import type { Gate } from '../../packages/server/src/ports/gate.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import { createGateRig, type GateJob, type GateRig } from '../support/gate-rig.ts'
import { realClock } from '../support/real-clock.ts'
import { eventually, recordEvents, recordHints } from '../support/running.ts'

let rig: GateRig
beforeAll(async () => {
  rig = await createGateRig({ unclaimedMs: 100, restMs: 200 })
})
afterAll(() => rig.drop())

/** What every test leaves: nothing alive, and no slot, group or token of it. */
afterEach(async () => {
  await rig.database.sql('DELETE FROM belfry.ready')
  await rig.database.sql('UPDATE belfry.slot SET freed = true')
  await rig.database.sql('UPDATE belfry.gate_group SET waits_on = NULL, look_at = belfry.now()')
  await rig.lookAll()
  const left = await rig.database.sql('SELECT 1 FROM belfry.slot UNION ALL SELECT 1 FROM belfry.gate_group')
  if (left.length > 0) throw new Error(`A test has left ${left.length} slots and groups behind.`)
})

/** Rows that hold a slot of the job, as the book says, and by their own flag. */
async function slotsOf(job: GateJob): Promise<{ counted: number; open: number }> {
  const [row] = await rig.database.sql<{ counted: number; open: number }>(
    `SELECT (SELECT count(*)::int FROM belfry.slot
             WHERE limit_key = 'job:' || $1::uuid::text AND NOT freed) AS counted,
            (SELECT count(*)::int FROM belfry.ready WHERE job_id = $1 AND gate IS NULL) AS open`,
    [job.id],
  )
  return row ?? { counted: -1, open: -1 }
}

describe('a look that dies', () => {
  it('at any of its statements leaves everything as it was, and the next one does it all', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 3 }, rateLimit: { count: 100, perMs: 1_000 } })
    const ids = await rig.enqueue(job, 6)
    let statements = 0
    for (let dies = 0; ; dies++) {
      const gate = createPostgresGate(dyingAt(rig.database.open({ maxConnections: 1 }), dies))
      const died = await gate.look(job.tenantId).then(
        () => false,
        () => true,
      )
      if (!died) break
      statements++
      expect(await rig.open(ids), `after a crash at statement ${dies}`).toEqual([])
      expect(await rig.used()).toEqual({})
    }
    expect(statements).toBeGreaterThan(7)
    expect(await rig.open(ids)).toEqual(ids.slice(0, 3))
  })
})

/** A database of which the transaction breaks before statement `dies`; beyond the last it lives. */
function dyingAt(db: Database, dies: number): Database {
  return {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, (tx) => {
        let sent = 0
        return work({
          ...tx,
          query: async (statement, params) => {
            if (sent++ === dies) throw new Error('the process died here')
            return tx.query(statement, params)
          },
        })
      }),
  }
}

describe('many at once', () => {
  it('never let in more than the limit: gatekeepers, 50 enqueuers and workers at once', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 10 } })
    const gates = [1, 2, 3].map(() => rig.anotherGate())
    let over = false
    let done = 0
    const total = 500
    const enqueuing = Promise.all(
      Array.from({ length: 50 }, (_, place) => rig.enqueue(job, total / 50, { firstTag: 1 + place * 10 })),
    )
    const watch = async (): Promise<void> => {
      while (done < total) {
        const { counted, open } = await slotsOf(job)
        if (counted > 10 || open > 10) over = true
      }
    }
    const keep = async (gate: Gate): Promise<void> => {
      while (done < total) await gate.look(job.tenantId)
    }
    const work = async (): Promise<void> => {
      const session = await rig.openSession(600_000)
      while (done < total) {
        const claimed = await rig.claim(4, session)
        await rig.succeed(claimed)
        done += claimed.length
      }
    }
    await Promise.all([enqueuing, watch(), ...gates.map(keep), work(), work()])
    expect(over).toBe(false)
    expect(done).toBe(total)
  }, 60_000)
})

describe('a worker that is killed', () => {
  it('leaks no slot: its runs give them back as the rescuer takes them', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 5 } })
    const ids = await rig.enqueue(job, 10)
    await rig.lookAll()
    const session = await rig.openSession(600_000)
    const claimed = await rig.claim(10, session)
    expect(claimed).toHaveLength(5)
    await rig.database.sql('DELETE FROM belfry.session WHERE id = $1', [session])
    await rig.store.settleClaims(10_000)
    const { runs } = await rig.store.stuckRuns(null, 100)
    await rig.store.rescue(
      runs.map((run) => ({
        runId: run.runId,
        sessionId: run.sessionId,
        leaseEpoch: run.leaseEpoch,
        outcome: 'lost' as const,
        runState: null,
        reason: null,
        retryDelayMs: 60_000,
        countAs: 'crash' as const,
        startedAtMs: run.claimedAtMs,
        endedAtMs: Date.now(),
        errorCode: 'session_lost',
        errorMessage: 'lost',
        httpStatus: null,
        response: null,
        responseTruncated: false,
      })),
    )
    expect(await slotsOf(job)).toEqual({ counted: 0, open: 0 })
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids.slice(5))
    expect(await slotsOf(job)).toEqual({ counted: 5, open: 5 })
    await rig.database.sql('DELETE FROM belfry.delayed')
  })
})

describe('a worker that stops', () => {
  it('hands unstarted runs back behind the gate, where a pause that came meanwhile holds them', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 2 } })
    const ids = await rig.enqueue(job, 3)
    await rig.lookAll()
    const session = await rig.openSession(600_000)
    const claimed = await rig.claim(2, session)
    await rig.database.sql(`UPDATE belfry.job SET paused_at = now(), paused_reason = 'x' WHERE id = $1`, [
      job.id,
    ])
    await rig.lookAll()
    expect(await slotsOf(job)).toEqual({ counted: 2, open: 2 })
    const unstarted = claimed.map((run) => ({ ...run, queue: 'default' }))
    await rig.store.handBack(session, unstarted)
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual([])
    expect(await slotsOf(job)).toEqual({ counted: 0, open: 0 })
    await rig.database.sql('UPDATE belfry.job SET paused_at = NULL, paused_reason = NULL WHERE id = $1', [
      job.id,
    ])
    await rig.lookAll()
    expect(await rig.open(ids)).toEqual(ids.slice(0, 2))
  })
})

describe('a limit that changes', () => {
  it('holds up and down by itself, also for what runs and what was never held', async () => {
    const job = await rig.limitedJob({})
    const ids = await rig.enqueue(job, 10)
    const session = await rig.openSession(600_000)
    const running = await rig.claim(3, session)
    await rig.changeJob(job, { concurrency: { limit: 4 } })
    await rig.lookAll()
    expect(await slotsOf(job)).toEqual({ counted: 4, open: 4 })
    await rig.changeJob(job, { concurrency: { limit: 2 } })
    await rig.lookAll()
    // those that run go on
    expect(await slotsOf(job)).toEqual({ counted: 3, open: 3 })
    await rig.succeed(running.slice(0, 2))
    await rig.lookAll()
    expect(await slotsOf(job)).toEqual({ counted: 2, open: 2 })
    await rig.changeJob(job, { concurrency: { limit: 6 } })
    await rig.lookAll()
    expect(await slotsOf(job)).toEqual({ counted: 6, open: 6 })
    await rig.changeJob(job, {})
    await rig.lookAll()
    const left = ids.length - 2
    expect(await slotsOf(job)).toEqual({ counted: 0, open: left })
  })

  it('holds a run too that was being made while it came: the walk is done again', async () => {
    const job = await rig.limitedJob({})
    const [client, other] = [rig.database.open({ maxConnections: 1 }), rig.database]
    const { promise: go, resolve: commit } = Promise.withResolvers<void>()
    const made = Promise.withResolvers<void>()
    const late = rig.enqueueWith(client, job, 3, () => {
      made.resolve()
      return go
    })
    await made.promise
    await rig.changeJob(job, { concurrency: { limit: 1 } })
    await rig.lookAll()
    commit()
    const ids = await late
    expect(await rig.open(ids)).toEqual(ids)
    await eventually(async () => {
      await rig.lookAll()
      return (await rig.open(ids)).length === 1
    }, 'the walk has found them')
    expect(await slotsOf(job)).toEqual({ counted: 1, open: 1 })
    await eventually(async () => {
      await rig.lookAll()
      return (await other.sql('SELECT 1 FROM belfry.regate')).length === 0
    }, 'the last walk is over')
  })
})

describe('lost hints', () => {
  it('cost a second or so, and no more', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    const keeper = createGatekeeper({
      gate: rig.anotherGate(),
      clock: realClock,
      random: { next: () => 0.5 },
      events: recordEvents(),
      hints: recordHints(),
    })
    const ids = await rig.enqueue(job, 2)
    await keeper.start()
    try {
      await eventually(async () => (await rig.open(ids)).length === 1, 'the first is let in')
      const startedMs = performance.now()
      await rig.succeed(await rig.claim(1))
      await eventually(async () => (await rig.open(ids)).length === 1, 'the second is let in', 5_000)
      expect(performance.now() - startedMs).toBeLessThan(3_000)
    } finally {
      await keeper.stop()
    }
  })

  it('and a head that was canceled holds up nobody behind it for long', async () => {
    const tenantId = await rig.addTenant()
    const poolId = await rig.addPool(tenantId, { name: 'tight', slots: 2 })
    const light = await rig.limitedJob({ concurrency: { pools: [{ name: 'tight' }] } }, tenantId)
    const heavy = await rig.limitedJob({ concurrency: { pools: [{ name: 'tight', weight: 2 }] } }, tenantId)
    const [first = ''] = await rig.enqueue(light, 1)
    const [head = ''] = await rig.enqueue(heavy, 1, { firstTag: 2 })
    const [behind = ''] = await rig.enqueue(light, 1, { firstTag: 3 })
    await rig.lookAll()
    expect(await rig.open([first, head, behind])).toEqual([first])
    await rig.database.sql('DELETE FROM belfry.ready WHERE run_id = $1', [head])
    expect(await rig.lookAll()).toBe(0)
    expect(await rig.gate.tidy()).toBe(true)
    expect(await rig.lookAll()).toBe(1)
    expect(await rig.open([behind])).toEqual([behind])
    await rig.database.sql('DELETE FROM belfry.pool WHERE id = $1', [poolId])
  })
})

describe('a run that nobody claims', () => {
  it('gives its place to another job that waits for it, and gets another later', async () => {
    const tenantId = await rig.addTenant()
    await rig.addPool(tenantId, { name: 'one', slots: 1 })
    const pools = [{ name: 'one' }]
    const stale = await rig.limitedJob({ concurrency: { pools } }, tenantId)
    const fresh = await rig.limitedJob({ concurrency: { pools } }, tenantId)
    const [unserved = ''] = await rig.enqueue(stale, 1, { queue: 'nobody' })
    await rig.lookAll()
    const [waiting = ''] = await rig.enqueue(fresh, 1, { firstTag: 2 })
    await rig.lookAll()
    expect(await rig.open([unserved, waiting])).toEqual([unserved])
    await eventually(async () => {
      await rig.gate.tidy()
      await rig.lookAll()
      return (await rig.open([waiting])).length === 1
    }, 'the other has its place')
    expect(await rig.open([unserved])).toEqual([])
    await rig.succeed(await rig.claim(1))
    await eventually(async () => {
      await rig.lookAll()
      return (await rig.open([unserved])).length === 1
    }, 'its rest is over')
  })
})
