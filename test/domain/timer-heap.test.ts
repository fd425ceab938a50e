import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createTimerHeap } from '../../packages/server/src/engine/timer-heap.ts'
import type { DueTimer } from '../../packages/server/src/ports/timer-index.ts'

type Timer = Extract<DueTimer, { kind: 'schedule' }>
const timer = (id: number, dueAtMs: number, gen = 1): Timer => ({
  kind: 'schedule',
  id: `id-${id}`,
  tenantId: 't',
  shard: id % 4,
  dueAtMs,
  scheduledForMs: dueAtMs,
  gen,
})

describe('the heap against a sorted list', () => {
  const operation = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('push' as const), id: fc.nat(40), due: fc.nat(100), gen: fc.nat(2) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('pop' as const), now: fc.nat(100), limit: fc.nat(8) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('retain' as const), shard: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('trim' as const), limit: fc.nat(30) }) },
  )

  test('holds each id once, as it came last, and gives out in due order', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
        const heap = createTimerHeap()
        let model = new Map<string, Timer>()
        const sorted = (): Timer[] =>
          [...model.values()].sort((a, b) => a.dueAtMs - b.dueAtMs || (a.id < b.id ? -1 : 1))
        for (const each of operations) {
          if (each.kind === 'push') {
            const next = timer(each.id, each.due, each.gen)
            const present = model.get(next.id)
            const same = present?.dueAtMs === next.dueAtMs && present.gen === next.gen
            expect(heap.push({ timer: next })).toBe(!same)
            model.set(next.id, next)
          } else if (each.kind === 'pop') {
            const due = sorted().filter(({ dueAtMs }) => dueAtMs <= each.now).slice(0, each.limit)
            expect(heap.popDue(each.now, each.limit).map((entry) => entry.timer)).toEqual(due)
            for (const { id } of due) model.delete(id)
          } else if (each.kind === 'retain') {
            heap.retain((entry) => entry.timer.shard !== each.shard)
            model = new Map([...model].filter(([, { shard }]) => shard !== each.shard))
          } else {
            const all = sorted()
            expect(heap.trim(each.limit)).toBe(all[each.limit]?.dueAtMs ?? Infinity)
            model = new Map(all.slice(0, each.limit).map((kept) => [kept.id, kept]))
          }
          expect(heap.size).toBe(model.size)
          expect(heap.firstDueMs()).toBe(sorted()[0]?.dueAtMs ?? Infinity)
        }
        expect(heap.popDue(Infinity, Infinity).map((entry) => entry.timer)).toEqual(sorted())
      }),
    )
  })
})
