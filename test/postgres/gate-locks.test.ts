// Looks at the gate and ends of runs that meet at the same rows. Who ends a run while a look opens it frees
// the slots that it then has; and neither of the two waits for the other in a circle, wherever the look
// stands.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import { statement } from '../../packages/server/src/postgres/statement.ts'
import { endOverdueRuns } from '../../packages/server/src/postgres/statements/expiry.ts'
import { cancelWaitingRuns } from '../../packages/server/src/postgres/statements/run-cancels.ts'
import { ping } from '../../packages/server/src/postgres/statements/transaction.ts'
import { type Claimed, createGateRig, type GateJob, type GateRig } from '../support/gate-rig.ts'
import { eventually, succeededEnd } from '../support/running.ts'

let rig: GateRig
/** Of the side that looks, and of the side that ends. */
let looking: Database
let ending: Database
beforeAll(async () => {
  rig = await createGateRig()
  looking = rig.database.open({ maxConnections: 2 })
  ending = rig.database.open({ maxConnections: 2 })
})
afterAll(() => rig.drop())

/** Nothing alive, and so no slot that still counts. */
afterEach(async () => {
  await rig.database.sql('DELETE FROM belfry.ready')
  await rig.database.sql('DELETE FROM belfry.delayed')
  await rig.database.sql('UPDATE belfry.slot SET freed = true')
  await rig.database.sql('UPDATE belfry.gate_group SET waits_on = NULL, look_at = belfry.now()')
  await rig.lookAll()
})

const cancel = (job: GateJob, runIds: readonly string[]) =>
  ending.run({ role: 'belfry_app', tenantId: job.tenantId }, cancelWaitingRuns, [runIds])

/** A database whose transactions wait before each statement until they are let go on, then the commit. */
function stepping(db: Database, before: (statement: number) => Promise<void>): Database {
  let sent = 0
  return {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, async (tx) => {
        const result = await work({
          ...tx,
          query: async (statement, params) => {
            await before(sent++)
            return tx.query(statement, params)
          },
        })
        await before(sent++)
        return result
      }),
  }
}

/**
 * Does `other` while `look` stands before its statement number `place`, and lets the look go on as soon as
 * the other waits for it or is over. False: the look has no statement of that number.
 */
async function meetAt(
  place: number,
  look: (db: Database) => Promise<unknown>,
  other: () => Promise<unknown>,
): Promise<boolean> {
  const there = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  let met = false
  const looks = look(
    stepping(looking, async (statement) => {
      if (statement !== place) return
      met = true
      there.resolve()
      await go.promise
    }),
  ).finally(there.resolve)
  await there.promise
  let over = false
  const others = other().finally(() => {
    over = true
  })
  try {
    if (met) await eventually(async () => over || (await anybodyWaits()), 'the other is done, or waits')
  } finally {
    go.resolve()
    await Promise.all([looks, others])
  }
  return met
}

async function anybodyWaits(): Promise<boolean> {
  const waiting = await rig.database.sql(
    `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  )
  return waiting.length > 0
}

/** Slots that count though their run has left `ready`. */
async function lostSlots(): Promise<number> {
  const lost = await rig.database.sql(
    `SELECT 1 FROM belfry.slot AS s WHERE NOT s.freed
       AND NOT EXISTS (SELECT FROM belfry.ready AS r WHERE r.run_id = s.run_id AND r.slotted)`,
  )
  return lost.length
}

describe('an end of a run that meets a look', () => {
  const waiting: Record<string, (job: GateJob, runIds: readonly string[]) => Promise<unknown>> = {
    cancel,
    // passes by a row that is held, and follows one that was changed
    expiry: (_, runIds) => ending.run({ role: 'belfry_engine' }, endOverdueRuns, [runIds]),
  }
  it.each(Object.keys(waiting))('leaves no slot behind: %s while it is opened', async (kind) => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    let place = 0
    for (let met = true; met; place++) {
      const [first = '', second = ''] = await rig.enqueue(job, 2)
      await rig.database.sql('UPDATE belfry.ready SET run_deadline = belfry.now() WHERE run_id = $1', [first])
      met = await meetAt(
        place,
        (db) => createPostgresGate(db).look(job.tenantId),
        async () => waiting[kind]?.(job, [first]),
      )
      expect(await lostSlots(), `where the look stood before statement ${place}`).toBe(0)
      await cancel(job, [first])
      await rig.lookAll()
      expect(await rig.open([second])).toEqual([second])
      await cancel(job, [second])
      await rig.lookAll()
    }
    expect(place).toBeGreaterThan(9)
  })

  const running: Record<string, (run: Claimed) => Promise<unknown>> = {
    success: (run) => rig.succeed([run]),
    failure: (run) => rig.store.complete(run.sessionId, [{ ...succeededEnd(run), ...failed }]),
    'hand back': (run) => rig.store.handBack(run.sessionId, [{ ...run, queue: 'default' }]),
  }
  const failed = {
    outcome: 'failed',
    runState: null,
    retryDelayMs: 60_000,
    countAs: 'failure',
    errorCode: 'http_status',
    errorMessage: 'no',
  } as const
  it.each(Object.keys(running))('leaves no slot behind: %s while a walk gives it slots', async (kind) => {
    let place = 0
    for (let met = true; met; place++) {
      const job = await rig.limitedJob({})
      await rig.enqueue(job, 1)
      const [run] = await rig.claim(1)
      if (run === undefined) throw new Error('no run was claimed')
      await rig.changeJob(job, { concurrency: { limit: 1 } })
      met = await meetAt(
        place,
        (db) => createPostgresGate(db).regate(job.tenantId),
        async () => running[kind]?.(run),
      )
      expect(await lostSlots(), `where the walk stood before statement ${place}`).toBe(0)
      await rig.database.sql('DELETE FROM belfry.ready')
      await rig.database.sql('UPDATE belfry.slot SET freed = true')
      await rig.lookAll()
    }
    expect(place).toBeGreaterThan(6)
  })

  it('leaves no slot behind: many cancels and gatekeepers at once', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 20 } })
    const gates = [1, 2].map(() => rig.anotherGate())
    const app = rig.database.open({ maxConnections: 4 })
    let rounds = 240
    const look = async (gate: GateRig['gate']): Promise<void> => {
      while (rounds > 0) await gate.look(job.tenantId)
    }
    const enqueueAndCancel = async (): Promise<void> => {
      while (rounds-- > 0) {
        const ids = await rig.enqueue(job, 10)
        const turns = rounds % 4
        for (let turn = 0; turn < turns; turn++) await app.run({ role: 'belfry_engine' }, ping, [])
        await app.run({ role: 'belfry_app', tenantId: job.tenantId }, cancelWaitingRuns, [ids])
      }
    }
    await Promise.all([...gates.map(look), ...[1, 2, 3].map(enqueueAndCancel)])
    expect(await lostSlots()).toBe(0)
    expect(await rig.rows()).toEqual(new Map())
  })
})

describe('a look and an end of several runs', () => {
  it('wait in no circle: a cancel of runs of which one has arrived just now', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    let place = 0
    for (let met = true; met; place++) {
      await rig.enqueue(job, 1)
      await rig.lookAll()
      const [seen = ''] = await rig.enqueue(job, 1, { firstTag: 2 })
      await rig.lookAll()
      await rig.succeed(await rig.claim(1))
      const [arrived = ''] = await rig.enqueue(job, 1, { firstTag: 3 })
      expect(seen < arrived).toBe(true)
      met = await meetAt(
        place,
        (db) => createPostgresGate(db).look(job.tenantId),
        () => cancel(job, [seen, arrived]),
      )
      await rig.lookAll()
      expect(await lostSlots()).toBe(0)
      if (!met) return
    }
  })

  it('wait in no circle: an end of runs that newer ones are to replace', async () => {
    const limits = { concurrency: { limit: 1, onLimit: 'replace' as const } }
    let place = 0
    for (let met = true; met; place++) {
      const [one, two] = [await rig.limitedJob(limits), await rig.limitedJob(limits)]
      await rig.enqueue(one, 1, { firstTag: 1 })
      await rig.enqueue(two, 1, { firstTag: 2 })
      await rig.lookAll()
      const running = (await rig.claim(2)).toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
      expect(running).toHaveLength(2)
      // newer ones, so that the group of the later run comes first; and one that is opened at the same time
      await rig.enqueue(two, 1, { firstTag: 3 })
      await rig.enqueue(one, 1, { firstTag: 4 })
      met = await meetAt(
        place,
        (db) => createPostgresGate(db).look(one.tenantId),
        () =>
          rig.store.complete(
            running[0]?.sessionId ?? '',
            running.map((run) => succeededEnd(run)),
          ),
      )
      await rig.lookAll()
      expect(await lostSlots()).toBe(0)
      await rig.database.sql('DELETE FROM belfry.ready')
      await rig.database.sql('UPDATE belfry.slot SET freed = true')
      await rig.lookAll()
      if (!met) return
    }
  })
})

describe('a row that is changed while somebody waits for it', () => {
  /** Changes the run in a transaction that is committed once `other` waits for it, or is over. */
  async function changeBefore(runId: string, other: () => Promise<unknown>): Promise<void> {
    let over = false
    let others: Promise<unknown> = Promise.resolve()
    await ending.transaction({ role: 'belfry_engine' }, async (tx) => {
      await tx.query(follow, [runId])
      others = other().finally(() => {
        over = true
      })
      await eventually(async () => over || (await anybodyWaits()), 'the other waits')
    })
    await others
  }
  const follow = statement<unknown, [runId: string]>(
    'test_follow',
    'UPDATE belfry.ready SET followed = true WHERE run_id = $1',
  )

  it('is opened all the same', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    const [first = ''] = await rig.enqueue(job, 2)
    await changeBefore(first, () => rig.lookAll())
    await rig.lookAll()
    expect(await rig.open([first])).toEqual([first])
    expect(await rig.used()).toEqual({ [`job:${job.id}`]: 1 })
  })

  it('gets its slots in a walk, gives them back, and ends', async () => {
    const job = await rig.limitedJob({})
    const ids = await rig.enqueue(job, 2)
    const [kept, ended] = await rig.claim(2)
    if (kept === undefined || ended === undefined) throw new Error('two runs were not claimed')
    await rig.changeJob(job, { concurrency: { limit: 5 } })
    await changeBefore(kept.runId, () => rig.gate.regate(job.tenantId))
    expect(await rig.used()).toEqual({ [`job:${job.id}`]: 2 })
    const back = [{ ...kept, queue: 'default' }]
    await changeBefore(kept.runId, () => rig.store.handBack(kept.sessionId, back))
    expect(await rig.used()).toEqual({ [`job:${job.id}`]: 1 })
    await changeBefore(ended.runId, () => rig.succeed([ended]))
    expect(await rig.used()).toEqual({})
    await changeBefore(kept.runId, () => cancel(job, ids))
    expect(await rig.rows()).toEqual(new Map())
  })

  it('makes room for a newer one', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1, onLimit: 'replace' } })
    const [older = ''] = await rig.enqueue(job, 1)
    await rig.lookAll()
    const [newer = ''] = await rig.enqueue(job, 1, { firstTag: 2 })
    await changeBefore(older, () => rig.lookAll())
    await rig.lookAll()
    expect(await rig.open([newer])).toEqual([newer])
    expect(await rig.used()).toEqual({ [`job:${job.id}`]: 1 })
    await rig.database.sql('DELETE FROM belfry.delayed')
  })
})

describe('slots of a run that has gone without them', () => {
  it('are found by the seldom search, and let others in', async () => {
    const job = await rig.limitedJob({ concurrency: { limit: 1 } })
    const [first = '', second = ''] = await rig.enqueue(job, 2)
    await rig.lookAll()
    // as by a server that knows nothing of slots
    await rig.database.sql('DELETE FROM belfry.ready WHERE run_id = $1', [first])
    await rig.lookAll()
    expect(await rig.open([second])).toEqual([])
    expect(await rig.gate.tidy()).toBe(true)
    await rig.lookAll()
    expect(await rig.open([second])).toEqual([second])
    expect(await lostSlots()).toBe(0)
    await rig.gate.tidy()
    expect(await rig.used()).toEqual({ [`job:${job.id}`]: 1 })
  })
})
