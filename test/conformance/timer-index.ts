// What every TimerIndex must do, whatever keeps it.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { DueTimer, TimerIndex } from '../../packages/server/src/ports/timer-index.ts'

export type TimerIndexRig = {
  readonly index: TimerIndex
  readonly tenantId: string
  /** The time at which the index stands still. */
  readonly nowMs: number
  readonly idInShard: (shard: number) => string
  /** Adds it in Postgres; the suite tells the index. */
  readonly addSchedule: (timer: { id: string; dueAtMs: number; scheduledForMs: number }) => Promise<unknown>
  readonly addRun: (timer: { id: string; dueAtMs: number }) => Promise<unknown>
  /** Takes the timer of a schedule away, or to another due instant, as a fire does. */
  readonly remove: (scheduleId: string) => Promise<unknown>
  readonly moveTo: (scheduleId: string, dueAtMs: number) => Promise<unknown>
  readonly clear: () => Promise<void>
  readonly drop: () => Promise<void>
}

const horizonMs = 60_000
const shards = Array.from({ length: 64 }, (_, shard) => shard)

export function describeTimerIndex(name: string, create: () => Promise<TimerIndexRig>): void {
  describe(`timer index: ${name}`, () => {
    let rig: TimerIndexRig
    beforeAll(async () => {
      rig = await create()
    })
    afterAll(() => rig.drop())
    beforeEach(() => rig.clear())

    const addAt = (shard: number, inMs: number): Promise<unknown> => {
      const dueAtMs = rig.nowMs + inMs
      return addSchedule(shard, { id: rig.idInShard(shard), dueAtMs, scheduledForMs: dueAtMs })
    }
    async function addSchedule(
      shard: number,
      timer: { id: string; dueAtMs: number; scheduledForMs: number },
    ): Promise<void> {
      await rig.addSchedule(timer)
      rig.index.changed(shard)
    }
    async function addRun(shard: number, timer: { id: string; dueAtMs: number }): Promise<void> {
      await rig.addRun(timer)
      rig.index.changed(shard)
    }

    async function readAll(limit: number, only: readonly number[] = shards): Promise<DueTimer[][]> {
      const pages: DueTimer[][] = []
      let cursor: string | null = null
      do {
        const page = await rig.index.scan({ shards: only, horizonMs, limit, cursor, fromMs: null })
        pages.push([...page.timers])
        cursor = page.cursor
      } while (cursor !== null && pages.length < 1_000)
      return pages
    }

    test('tells all of a timer, also after there was none', async () => {
      const none = await rig.index.scan({ shards, horizonMs, limit: 10, cursor: null, fromMs: null })
      expect(none).toMatchObject({ timers: [], cursor: null })
      expect([rig.nowMs, null]).toContain(none.nowMs)
      const [scheduleId, runId] = [rig.idInShard(5), rig.idInShard(63)]
      await addSchedule(5, { id: scheduleId, dueAtMs: rig.nowMs + 123, scheduledForMs: rig.nowMs - 7 })
      await addRun(63, { id: runId, dueAtMs: rig.nowMs + 55 })
      const { timers, cursor } = await rig.index.scan({
        shards,
        horizonMs,
        limit: 10,
        cursor: null,
        fromMs: null,
      })
      expect(cursor).toBeNull()
      expect(timers).toEqual([
        {
          kind: 'run',
          id: runId,
          shard: 63,
          dueAtMs: rig.nowMs + 55,
          queue: 'default',
          priority: 0,
          tenantWeight: 1,
          tenantId: rig.tenantId,
        },
        {
          kind: 'schedule',
          id: scheduleId,
          shard: 5,
          dueAtMs: rig.nowMs + 123,
          scheduledForMs: rig.nowMs - 7,
          gen: 1,
          tenantId: rig.tenantId,
        },
      ])
    })

    test('what is overdue comes, what lies at or beyond the horizon does not', async () => {
      for (const inMs of [-86_400_000, 0, horizonMs - 1, horizonMs, horizonMs + 1]) await addAt(1, inMs)
      const [page] = await readAll(100)
      expect(page?.map(({ dueAtMs }) => dueAtMs - rig.nowMs)).toEqual([-86_400_000, 0, horizonMs - 1])
    })

    test('from a due instant on, and not beyond one that is past', async () => {
      for (const inMs of [-5_000, -1_001, -1_000, 0, 10]) await addAt(1, inMs)
      const scan = async (fromMs: number | null, aheadMs: number): Promise<number[]> => {
        const part = { shards, horizonMs: aheadMs, limit: 10, cursor: null, fromMs }
        return (await rig.index.scan(part)).timers.map(({ dueAtMs }) => dueAtMs - rig.nowMs)
      }
      expect(await scan(rig.nowMs - 1_000, horizonMs)).toEqual([-1_000, 0, 10])
      expect(await scan(null, -1_000)).toEqual([-5_000, -1_001])
    })

    test('only the shards asked for', async () => {
      for (const shard of [0, 1, 2, 63]) await addAt(shard, 10)
      const [page] = await readAll(100, [1, 63])
      expect(page?.map(({ shard }) => shard).sort((a, b) => a - b)).toEqual([1, 63])
      expect((await readAll(100, []))[0]).toEqual([])
    })

    test.each([1, 7, 60, 1_000])(
      'pages of %i: everything once, in due order over all shards',
      async (limit) => {
        const added: Promise<unknown>[] = []
        // One shard has most of it, many timers share an instant, and both kinds are mixed.
        for (let i = 0; i < 300; i++) {
          const shard = i % 3 === 0 ? i % 64 : 17
          const dueAtMs = rig.nowMs + Math.floor(i / 7) * 100
          if (i % 5 === 0) added.push(addRun(shard, { id: rig.idInShard(shard), dueAtMs }))
          else added.push(addAt(shard, Math.floor(i / 7) * 100))
        }
        await Promise.all(added)
        const pages = await readAll(limit)
        const timers = pages.flat()
        expect(new Set(timers.map(({ id }) => id)).size).toBe(300)
        expect(timers).toHaveLength(300)
        for (const page of pages) expect(page.length).toBeLessThanOrEqual(limit)
        const due = timers.map(({ dueAtMs }) => dueAtMs)
        expect(due).toEqual([...due].sort((a, b) => a - b))
      },
    )

    test('what was fired is gone, what moved stands at its next time', async () => {
      const [once, again] = [rig.idInShard(3), rig.idInShard(3)]
      for (const id of [once, again])
        await addSchedule(3, { id, dueAtMs: rig.nowMs, scheduledForMs: rig.nowMs })
      const read = (await readAll(100)).flat()
      expect(read.map(({ id }) => id).sort()).toEqual([once, again].sort())
      await rig.index.take(read)
      await rig.remove(once)
      await rig.moveTo(again, rig.nowMs + 1_000)
      const moved = read.flatMap((timer) =>
        timer.id === again && timer.kind === 'schedule'
          ? [{ ...timer, dueAtMs: rig.nowMs + 1_000, scheduledForMs: rig.nowMs + 1_000 }]
          : [],
      )
      await rig.index.settle(read, moved)
      expect((await readAll(100)).flat()).toEqual(moved)
    })
  })
}
