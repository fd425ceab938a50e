// The heap of timers, against a list that is sorted each time.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createTimerHeap,
  type TimerEntry,
  type TimerHeap,
} from '../../packages/server/src/engine/timer-heap.ts'
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

type Operation =
  | { readonly kind: 'push'; readonly id: number; readonly due: number; readonly gen: number }
  | { readonly kind: 'pop'; readonly now: number; readonly limit: number }
  | { readonly kind: 'retain'; readonly shard: number }
  | { readonly kind: 'trim'; readonly limit: number }

const sorted = (model: ReadonlyMap<string, Timer>): Timer[] =>
  [...model.values()].sort((a, b) => a.dueAtMs - b.dueAtMs || (a.id < b.id ? -1 : 1))

/** Does the same to both; what the heap answered, and what it should have. */
function apply(heap: TimerHeap<TimerEntry>, model: Map<string, Timer>, each: Operation): [unknown, unknown] {
  if (each.kind === 'push') {
    const next = timer(each.id, each.due, each.gen)
    const present = model.get(next.id)
    const isNews =
      present === undefined ||
      next.gen > present.gen ||
      (next.gen === present.gen && next.dueAtMs !== present.dueAtMs)
    if (isNews) model.set(next.id, next)
    return [heap.push({ timer: next }), isNews]
  }
  const all = sorted(model)
  if (each.kind === 'pop') {
    const due = all.filter(({ dueAtMs }) => dueAtMs <= each.now).slice(0, each.limit)
    for (const { id } of due) model.delete(id)
    return [heap.popDue(each.now, each.limit).map((entry) => entry.timer), due]
  }
  if (each.kind === 'retain') {
    for (const { id, shard } of all) if (shard === each.shard) model.delete(id)
    return [heap.retain((entry) => entry.timer.shard !== each.shard), undefined]
  }
  for (const { id } of all.slice(each.limit)) model.delete(id)
  return [heap.trim(each.limit), all[each.limit]?.dueAtMs ?? Infinity]
}

describe('the heap against a sorted list', () => {
  const operation = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('push' as const),
        id: fc.nat(40),
        due: fc.nat(100),
        gen: fc.nat(2),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('pop' as const), now: fc.nat(100), limit: fc.nat(8) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('retain' as const), shard: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('trim' as const), limit: fc.nat(30) }) },
  )

  test('holds each id once, as it came last of its latest generation, and gives out in due order', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
        const heap = createTimerHeap()
        const model = new Map<string, Timer>()
        for (const each of operations) {
          const [got, expected] = apply(heap, model, each)
          expect(got).toEqual(expected)
          expect(heap.size).toBe(model.size)
          expect(heap.firstDueMs()).toBe(sorted(model)[0]?.dueAtMs ?? Infinity)
        }
        expect(heap.popDue(Infinity, Infinity).map((entry) => entry.timer)).toEqual(sorted(model))
      }),
    )
  })
})
