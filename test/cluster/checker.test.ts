/**
 * The checker of cluster tests must be able to fail: a world in which all promises held is clean, and each
 * kind of fault, put into it by hand, is named, and nothing else with it.
 */
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { arenaHarness } from './support/arena.ts'
import type { LedgerCall } from './support/checker.ts'
import { findFaults } from './support/checker.ts'

const harness = arenaHarness()
const tenantId = randomUUID()
const least = { scheduleId: randomUUID(), at: Date.UTC(2026, 0, 1, 12, 0, 0), runId: randomUUID() }
const most = { scheduleId: randomUUID(), at: Date.UTC(2026, 0, 1, 12, 0, 1), runId: randomUUID() }

interface World {
  readonly sql: pg.Client
  readonly calls: LedgerCall[]
}

interface AttemptEnding {
  readonly outcome: string
  readonly state?: string
  readonly reason?: string
  readonly epoch?: number
}

async function occurrence(sql: pg.Client, scheduleId: string, atMs: number, runId: string): Promise<void> {
  await sql.query(
    `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
     VALUES ($1, $2, $3, 'ran', $4, $2)`,
    [scheduleId, new Date(atMs), tenantId, runId],
  )
}

async function attempt(sql: pg.Client, runId: string, number: number, ending: AttemptEnding): Promise<void> {
  const { outcome, state = null, reason = null, epoch = number } = ending
  await sql.query(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason,
       started_at, retry_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, now(), CASE WHEN $6::text IS NULL THEN now() END)`,
    [runId, number, tenantId, epoch, outcome, state, reason],
  )
}

const call = (runId: string, idempotencyKey = runId): LedgerCall => ({ runId, idempotencyKey })
const success: AttemptEnding = { outcome: 'succeeded', state: 'succeeded' }

/** One run at least once, one at most once; both were called once and succeeded. */
async function goodWorld(sql: pg.Client): Promise<World> {
  for (const { scheduleId, at, runId } of [least, most]) {
    await occurrence(sql, scheduleId, at, runId)
    await attempt(sql, runId, 1, success)
  }
  return { sql, calls: [call(least.runId), call(most.runId)] }
}

const where = ({ scheduleId, at }: typeof least): string => `${scheduleId} at ${new Date(at).toISOString()}`
const strangerId = randomUUID()

interface Fault {
  readonly kind: string
  readonly commit: (world: World) => Promise<unknown> | void
  readonly named: readonly string[]
}

const forget = async (sql: pg.Client, table: 'occurrence' | 'attempt', column: string, id: string) => {
  await sql.query(`DELETE FROM belfry.${table} WHERE ${column} = $1`, [id])
}

const alive = `
  INSERT INTO belfry.ready
    (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms)
  VALUES ($1, $2, $1, 1, 'default', 'http', 0, 0, now(), 1000)`
const waiting = `
  INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler, priority,
    timeout_ms, lease_epoch, attempt, crash_count)
  VALUES ($1, $2, $1, 1, now(), 0, 'default', 'http', 0, 1000, 1, 1, 0)`
const sessionId = randomUUID()
const hold = 'UPDATE belfry.ready SET session_id = $2, claimed_at = now(), deadline = now() WHERE run_id = $1'

const faults: readonly Fault[] = [
  {
    kind: 'a planned time without an occurrence, and its run',
    commit: ({ sql }) => forget(sql, 'occurrence', 'schedule_id', least.scheduleId),
    named: [
      `no occurrence: ${least.scheduleId} ${least.at}`,
      `the target saw run ${least.runId}, which has no occurrence`,
    ],
  },
  {
    kind: 'an occurrence that nobody planned',
    commit: async ({ sql, calls }) => {
      const runId = randomUUID()
      await occurrence(sql, least.scheduleId, least.at + 1, runId)
      await attempt(sql, runId, 1, success)
      calls.push(call(runId))
    },
    named: [`nobody planned: ${least.scheduleId} ${least.at + 1}`],
  },
  {
    kind: 'an occurrence that was skipped',
    commit: async ({ sql, calls }) => {
      calls.shift()
      const skip = `UPDATE belfry.occurrence SET outcome = 'skipped', reason = 'overlap', run_id = NULL
        WHERE schedule_id = $1`
      await sql.query(skip, [least.scheduleId])
    },
    named: [`${where(least)} did not run: skipped`],
  },
  {
    kind: 'a call of a run that nothing asked for',
    commit: ({ calls }) => void calls.push(call(strangerId)),
    named: [`the target saw run ${strangerId}, which has no occurrence`],
  },
  {
    kind: 'a run that succeeded and was never called',
    commit: ({ calls }) => void calls.shift(),
    named: [`${where(least)} never reached the target`],
  },
  {
    kind: 'a run without an attempt',
    commit: ({ sql }) => forget(sql, 'attempt', 'run_id', least.runId),
    named: [`${where(least)} was never attempted`],
  },
  {
    kind: 'a run with two ends',
    commit: ({ sql }) => attempt(sql, least.runId, 2, success),
    named: [`${where(least)} ended 2 times`],
  },
  {
    kind: 'a run without an end',
    commit: async ({ sql }) => {
      await forget(sql, 'attempt', 'run_id', least.runId)
      await attempt(sql, least.runId, 1, { outcome: 'lost' })
    },
    named: [`${where(least)} ended 0 times`, `${where(least)} ended null, reason null`],
  },
  {
    kind: 'two attempts under one lease epoch',
    commit: ({ sql }) => attempt(sql, least.runId, 2, { outcome: 'lost', epoch: 1 }),
    named: [`${where(least)} has two attempts under one lease epoch`],
  },
  {
    kind: 'a result that was applied with an old epoch',
    async commit({ sql }) {
      await forget(sql, 'attempt', 'run_id', least.runId)
      await attempt(sql, least.runId, 1, { outcome: 'lost', epoch: 2 })
      await attempt(sql, least.runId, 2, { ...success, epoch: 1 })
    },
    named: [`${where(least)} ended under epoch 1, after epoch 2 was given out`],
  },
  {
    kind: 'a run that failed',
    commit: async ({ sql }) => {
      await forget(sql, 'attempt', 'run_id', least.runId)
      await attempt(sql, least.runId, 1, { outcome: 'failed', state: 'failed', reason: 'attempts_exhausted' })
    },
    named: [`${where(least)} ended failed, reason attempts_exhausted`],
  },
  {
    kind: 'a second call without an attempt that explains it',
    commit: ({ calls }) => void calls.push(call(least.runId)),
    named: [`${where(least)} was called 2 times, but only 0 attempts on record explain it`],
  },
  {
    kind: 'several idempotency keys for one run',
    commit: async ({ sql, calls }) => {
      await attempt(sql, least.runId, 2, { outcome: 'lost', epoch: 0 })
      calls.push(call(least.runId, 'another key'))
    },
    named: [`${where(least)} came with several keys`],
  },
  {
    kind: 'an at-most-once run that was called twice, even with an attempt to explain it',
    commit: async ({ sql, calls }) => {
      await attempt(sql, most.runId, 2, { outcome: 'lost', epoch: 0 })
      calls.push(call(most.runId))
    },
    named: [`${where(most)} is at most once and was called 2 times`],
  },
  {
    kind: 'an at-most-once run that ended otherwise than by success or in doubt',
    commit: async ({ sql }) => {
      await forget(sql, 'attempt', 'run_id', most.runId)
      await attempt(sql, most.runId, 1, { outcome: 'failed', state: 'failed', reason: 'attempts_exhausted' })
    },
    named: [`${where(most)} is at most once and ended failed, reason attempts_exhausted`],
  },
  {
    kind: 'a run that still waits or runs',
    commit: ({ sql }) => sql.query(alive, [randomUUID(), tenantId]),
    named: ['1 runs are still alive'],
  },
  {
    kind: 'a run that still waits for its next attempt',
    commit: ({ sql }) => sql.query(waiting, [randomUUID(), tenantId]),
    named: ['1 runs are still alive'],
  },
  {
    kind: 'a run that is held, which neither its row nor a claim tells',
    async commit({ sql }) {
      const [settled, listed] = [randomUUID(), randomUUID()]
      for (const runId of [settled, listed, strangerId]) {
        await sql.query(alive, [runId, tenantId])
        await sql.query(hold, [runId, sessionId])
      }
      await sql.query('UPDATE belfry.ready SET settled_by = session_id WHERE run_id = $1', [settled])
      const claim = 'INSERT INTO belfry.claim (session_id, tenant_id, number, run_ids) VALUES ($1, $2, 1, $3)'
      await sql.query(claim, [sessionId, tenantId, [listed]])
    },
    named: ['3 runs are still alive', `${strangerId} is held, but neither settled nor in a row of claim`],
  },
]

describe('the checker', () => {
  it('finds nothing in a good world, also where a lost attempt explains a second call', async () => {
    const { sql } = await openWorld()
    const { calls } = await goodWorld(sql)
    expect(await check({ sql, calls })).toEqual([])
    await attempt(sql, least.runId, 2, { outcome: 'lost', epoch: 0 })
    expect(await check({ sql, calls: [...calls, call(least.runId)] })).toEqual([])
  })

  it('names each kind of fault, and nothing else', async () => {
    const { sql } = await openWorld()
    for (const { kind, commit, named } of faults) {
      await sql.query('BEGIN')
      const world = await goodWorld(sql)
      await commit(world)
      expect.soft(await check(world), kind).toEqual(named)
      await sql.query('ROLLBACK')
    }
  })
})

async function openWorld(): Promise<{ sql: pg.Client }> {
  const arena = await harness.open()
  const sql = await arena.connect()
  harness.defer(() => sql.end())
  return { sql }
}

function check({ sql, calls }: World): Promise<string[]> {
  return findFaults({
    sql,
    calls,
    expected: [least, most].map(({ scheduleId, at }) => ({ scheduleId, times: [at] })),
    atMostOnceScheduleIds: new Set([most.scheduleId]),
  })
}
