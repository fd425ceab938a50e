// When the backfiller looks, and at what, on a clock that the test moves: next to never while there is
// nothing, soon after a hint, and what fails rests without holding up the others. The port is played here;
// that its steps are right is shown on Postgres.
import { describe, expect, test } from 'vitest'
import { createBackfiller } from '../../packages/server/src/engine/backfiller.ts'
import { createCompleter } from '../../packages/server/src/engine/completer.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { shardOf } from '../../packages/server/src/domain/shard.ts'
import type { Backfilling, DueBackfill, DueBackfills } from '../../packages/server/src/ports/backfilling.ts'
import type { HeldShard } from '../../packages/server/src/ports/leadership.ts'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'
import { recordEvents, recordHints, succeededEnd } from '../support/running.ts'
import { ids, newId, zones } from '../support/scheduling.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const minuteMs = 60_000

function rig(answers: Partial<Backfilling> = {}, shards: readonly number[] = [...Array(64).keys()]) {
  const clock = createVirtualClock(Date.UTC(2026, 2, 10))
  const events = recordEvents()
  const hints = createLocalHints()
  const looks: { shards: readonly number[]; exceptIds: readonly string[]; atMs: number }[] = []
  let held: readonly HeldShard[] = shards.map((shard) => ({ shard, term: 1 }))
  const listeners = new Set<() => void>()
  const state: { found: DueBackfills } = { found: { due: [], open: 0 } }
  const backfilling: Backfilling = {
    due: async (ofShards, exceptIds) => {
      looks.push({ shards: ofShards, exceptIds, atMs: clock.monotonicMs() })
      const { due, open } = state.found
      return { due: due.filter(({ id }) => !exceptIds.includes(id)), open }
    },
    within: () => Promise.reject(new Error('nothing is to be stepped here')),
    ...answers,
  }
  const backfiller = createBackfiller({
    clock,
    random: { next: () => 0.5 },
    events,
    elector: {
      heldShards: () => held,
      subscribe(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    },
    backfilling,
    firing: { plans: async () => [] },
    zones,
    ids,
    hints,
    tags: { ready: async () => undefined, next: () => 1 },
  })
  return {
    clock,
    events,
    hints,
    looks,
    backfiller,
    state,
    hold: (next: readonly number[]) => {
      held = next.map((shard) => ({ shard, term: 1 }))
      for (const listener of listeners) listener()
    },
    start: async () => {
      await backfiller.start()
      await clock.advance(0)
    },
  }
}

describe('when it looks', () => {
  test('once a minute while no backfill is open, and renewed shards change nothing', async () => {
    const { backfiller, clock, hold, looks, start } = rig()
    await start()
    for (let renewal = 0; renewal < 120; renewal++) {
      hold([...Array(64).keys()])
      await clock.advance(5_000)
    }
    await backfiller.stop()
    expect(looks.length).toBeGreaterThan(5)
    expect(looks.length).toBeLessThanOrEqual(12)
  })

  test('every ten seconds while one is open and waits', async () => {
    const { backfiller, clock, looks, start, state } = rig()
    state.found = { due: [], open: 1 }
    await start()
    expect(backfiller.stats()).toEqual({ open: 1 })
    await clock.advance(minuteMs)
    await backfiller.stop()
    expect(looks.length).toBeGreaterThanOrEqual(6)
    expect(looks.length).toBeLessThanOrEqual(8)
  })

  test('soon after a hint for a shard that is held; hints that come together bring one look', async () => {
    const { backfiller, clock, hints, looks, start } = rig({}, [3, 4])
    await start()
    looks.length = 0
    hints.publish({ topic: 'backfills', key: '5' })
    await clock.advance(1_000)
    expect(looks).toEqual([])
    for (const key of ['3', '4', '3', 'any']) hints.publish({ topic: 'backfills', key })
    await clock.advance(100)
    expect(looks.map(({ shards }) => shards)).toEqual([[3, 4]])
    await backfiller.stop()
  })

  test('soon after a shard was gained, and at none without shards', async () => {
    const { backfiller, clock, hold, looks, start } = rig({}, [])
    await start()
    await clock.advance(5 * minuteMs)
    expect(looks).toEqual([])
    hold([7])
    await clock.advance(100)
    expect(looks.map(({ shards }) => shards)).toEqual([[7]])
    await backfiller.stop()
  })
})

describe('a step that fails', () => {
  const [one, two]: DueBackfill[] = [1, 2].map(() => ({ id: newId(), scheduleId: newId() }))

  test('by itself rests for a growing time, and the others go on', async () => {
    const stepped: string[] = []
    const { backfiller, clock, events, state } = rig({
      within: async () => {
        stepped.push('step')
        throw new Error('the timing cannot be read')
      },
    })
    if (one === undefined || two === undefined) throw new Error('two are needed')
    state.found = { due: [one, two], open: 2 }
    expect(await backfiller.runOnce()).toBe(0)
    expect(stepped).toHaveLength(2)
    expect(await backfiller.runOnce()).toBe(0)
    expect(stepped).toHaveLength(2)
    await clock.advance(1_100)
    await backfiller.runOnce()
    await clock.advance(1_100)
    await backfiller.runOnce()
    // the second rest is two seconds
    expect(stepped).toHaveLength(4)
    const rests = events.of('role_failed').map(({ role, retryInMs }) => [role, retryInMs])
    expect(rests).toEqual([
      ['backfiller', 1_000],
      ['backfiller', 1_000],
      ['backfiller', 2_000],
      ['backfiller', 2_000],
    ])
  })

  test('with the database ends the round, and nothing rests', async () => {
    const away = Object.assign(new Error('terminated'), { code: '57P01' })
    const { backfiller, events, state } = rig({ within: () => Promise.reject(away) })
    if (one === undefined) throw new Error('one is needed')
    state.found = { due: [one], open: 1 }
    await expect(backfiller.runOnce()).rejects.toThrow('terminated')
    expect(events.of('role_failed')).toEqual([])
  })
})

describe('the end of a run', () => {
  test.each([
    ['succeeded', true],
    [null, false],
  ] as const)('of a backfill in state %s is hinted: %s', async (runState, hinted) => {
    const clock = createVirtualClock(0)
    const hints = recordHints()
    const scheduleId = newId()
    const run = { runId: newId(), leaseEpoch: 1, backfillOf: scheduleId } as ClaimedRun
    const other = { runId: newId(), leaseEpoch: 1, backfillOf: null } as ClaimedRun
    const completer = createCompleter({
      store: {
        complete: async (_session, ends) => ({
          applied: ends.map(({ runId }) => ({ runId, runState })),
          nowMs: 0,
          paused: [],
          timerShards: [],
        }),
      },
      clock,
      databaseClock: createDatabaseClock(clock),
      random: { next: () => 0.5 },
      events: recordEvents(),
      hints,
      batchMs: 20,
      batchSize: 500,
      nothingElseRuns: () => true,
    })
    for (const each of [run, other]) {
      const ending = { sessionId: 's', run: each, end: succeededEnd(each) }
      completer.submit({ ...ending, onAcknowledged: () => undefined, onDropped: () => undefined })
    }
    await clock.advance(1_000)
    await completer.stop(0)
    const published = hints.published.filter(({ topic }) => topic === 'backfills')
    expect(published).toEqual(hinted ? [{ topic: 'backfills', key: String(shardOf(scheduleId)) }] : [])
  })
})
