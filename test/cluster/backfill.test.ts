/**
 * A backfill of 300 planned times by one real process, which is killed -9 five times while it works, and
 * started again; another process helps from the middle on. Every planned time has exactly one run in the end,
 * every run succeeded, and the target saw none that is not on record.
 */
import type { Backfill } from '@belfry/contract'
import { expect, it } from 'vitest'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'

const hourMs = 3_600_000
const planned = 300
/** The process is killed when the target has seen so many calls. */
const killAtCalls = [15, 70, 125, 180, 235]

const harness = arenaHarness()

async function arrange(arena: Arena): Promise<{ scheduleId: string; times: number[]; backfill: Backfill }> {
  const client = arena.client()
  // the next planned time is half an hour ahead: nothing fires by itself meanwhile
  const firstMs = Math.floor(Date.now() / 1_000) * 1_000 - planned * hourMs + hourMs / 2
  const times = Array.from({ length: planned }, (_, index) => firstMs + index * hourMs)
  await client.jobs.create({
    name: 'replayed',
    handler: { kind: 'http', url: `${arena.ledger.url}/work` },
    retry: { maxAttempts: 20, baseMs: 100, capMs: 500 },
    attemptTimeoutMs: 10_000,
  })
  const startAt = new Date(firstMs).toISOString()
  const schedule = await client.schedules.create({ name: 'hourly', job: 'replayed', every: '1h', startAt })
  const backfill = await client.schedules.backfill(schedule.id, { from: startAt, concurrency: 10 })
  expect(backfill.total).toBe(planned)
  return { scheduleId: schedule.id, times, backfill }
}

it('runs every planned time once, however often the process is killed', { timeout: 120_000 }, async () => {
  const arena = await harness.open()
  await arena.start('a')
  const { scheduleId, times, backfill } = await arrange(arena)

  for (const [index, calls] of killAtCalls.entries()) {
    await eventually(() => arena.ledger.calls.length >= calls, `${calls} calls`, 40_000)
    const node = arena.nodes.get('a')
    node?.signal('SIGKILL')
    await node?.ended
    await arena.start('a')
    if (index === 2) await arena.start('b')
  }
  const ended = await arena.client('a').waitForBackfill(backfill.id, { timeoutMs: 60_000 })
  expect(ended).toMatchObject({
    state: 'completed',
    total: planned,
    started: planned,
    skipped: 0,
    nextAt: null,
    alive: 0,
    succeeded: planned,
    failed: 0,
    canceled: 0,
  })

  const sql = await arena.connect()
  harness.defer(() => sql.end())
  const calls = arena.ledger.calls
  const expected = [{ scheduleId, times }]
  const log = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
  expect(await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() }), log).toEqual([])
  const made = await sql.query<{ runs: number; times: number }>(
    `SELECT count(*)::int AS runs, count(DISTINCT scheduled_for)::int AS times FROM belfry.run
     WHERE source = 'backfill'`,
  )
  expect(made.rows).toEqual([{ runs: planned, times: planned }])
  const lost = await sql.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  expect(lost.rows[0]?.n, 'the kills must have hit something').toBeGreaterThan(0)
})
