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
import { untilQuiet } from './support/quiet.ts'

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
})
