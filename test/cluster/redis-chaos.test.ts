/**
 * The proof that Redis may lose everything (G7): three real Belfry processes on Postgres and Redis, 2,000
 * planned times over 40 seconds, while Redis is emptied, killed and started empty, frozen, filled up, and
 * the processes that lead are killed or stopped past their term. Nothing may be lost, and nothing late by
 * more than it takes to notice.
 */
import { expect, it } from 'vitest'
import { describeNeeding } from '../support/needs.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { actAt, killAndRestart, plan, settleMs, windowMs } from './support/planned-times.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'

const harness = arenaHarness()

describeNeeding('redis', 'with Redis', (program) => {
  it('loses nothing while Redis and the processes that lead come and go', { timeout: 480_000 }, async () => {
    const redis = await startRedisServer(program)
    const arena = await harness.open({ env: { REDIS_URL: redis.url } })
    harness.defer(() => redis.kill())
    for (const name of ['a', 'b', 'c']) await arena.start(name)
    const { firstMs, expected, atMostOnce } = await plan(arena.client(), `${arena.ledger.url}/work`)

    await actAt(firstMs, [
      [3, () => redis.say('FLUSHALL')],
      [6, () => killAndRestart(arena, 'a')],
      [10, () => redis.kill()],
      [12, () => killAndRestart(arena, 'b')],
      [16, () => redis.start()],
      [20, () => redis.pause()],
      [24, () => redis.goOn()],
      [25, () => arena.nodes.get('c')?.signal('SIGSTOP')],
      [26, () => redis.say('CONFIG SET maxmemory 1')],
      [28, () => process.kill(arena.postgres.pid, 'SIGKILL')],
      [30, () => redis.say('CONFIG SET maxmemory 0')],
      [32, () => arena.nodes.get('c')?.signal('SIGCONT')],
      [34, () => redis.say('FLUSHALL')],
    ])
    const sql = await untilQuiet(arena, firstMs + windowMs + settleMs)
    harness.defer(() => sql.end())

    const faults = await findFaults({
      sql,
      expected,
      calls: arena.ledger.calls,
      atMostOnceScheduleIds: atMostOnce,
    })
    const log = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
    expect(faults.slice(0, 20), log).toEqual([])
    const leads = await redis.say('KEYS belfry:*:{leaders}:nodes')
    expect(leads, 'Redis leads again').toContain('*1')
  })

  // the same names in both: nothing but the id of the installation tells their keys apart
  it('serves two installations at once, neither of which sees the other', { timeout: 120_000 }, async () => {
    const redis = await startRedisServer(program)
    harness.defer(() => redis.kill())
    const arenas = await Promise.all([1, 2].map(() => harness.open({ env: { REDIS_URL: redis.url } })))
    for (const arena of arenas) {
      await arena.start('a')
      await arena.start('b')
    }
    const firstMs = nextSecond(6_000)
    const plans = await Promise.all(
      arenas.map(async (arena) => {
        const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
        await arena.client().jobs.create({ name: 'least', handler })
        return planEachSecond(arena.client(), { job: 'least', count: 20, firstMs, seconds: 10 })
      }),
    )
    arenas[0]?.nodes.get('a')?.signal('SIGKILL')
    const leaders = (await redis.say('KEYS belfry:*:{leaders}:nodes')).match(/belfry:[^:]+:/g) ?? []
    expect(new Set(leaders).size, 'each leads under keys of its own').toBe(2)
    for (const [index, arena] of arenas.entries()) {
      const sql = await untilQuiet(arena, firstMs + 60_000)
      harness.defer(() => sql.end())
      const expected = plans[index] ?? []
      const faults = await findFaults({
        sql,
        expected,
        calls: arena.ledger.calls,
        atMostOnceScheduleIds: new Set(),
      })
      expect(faults.slice(0, 20)).toEqual([])
      expect(new Set(arena.ledger.calls.map(({ runId }) => runId)).size, 'its own runs alone').toBe(200)
    }
  })
})
